"""`explain` on a live cluster states the result of pods and workloads that have ended."""

import asyncio
from collections.abc import Sequence

import pytest

from scheduler.cli.main import run
from scheduler.sandbox.kinds import kinds
from scheduler.sandbox.nodes.shape import plain_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.testing import pod

pytestmark = pytest.mark.allow_blocking("files")


ENDED = "all 3 pods have ended (1 Failed, 2 Succeeded); they use no capacity any more"


def fill(sandbox: Sandbox, job: str, phases: Sequence[str], namespace: str = "default") -> None:
    """Create a suspended Job, whose controller adds no pods, and its ended pods."""
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    owner = sandbox.store.create(
        kinds.JOBS,
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": job, "namespace": namespace},
            "spec": {"suspend": True, "template": {"spec": spec}},
        },
    )
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "controller": True}
    reference["uid"] = owner.uid
    for at, phase in enumerate(phases):
        raw = pod(f"{job}-{at}", namespace=namespace)
        raw["metadata"] = {
            "name": f"{job}-{at}",
            "namespace": namespace,
            "ownerReferences": [reference],
        }
        made = sandbox.store.create(kinds.PODS, raw)
        # A new pod is Pending whatever it states, and a suspended Job deletes such pods.
        ended = {**made.obj, "status": {"phase": phase}}
        sandbox.store.update(kinds.PODS, ended, subresource="status")


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["job/train"], f"default/train: {ENDED}"),
        (["train"], f"default/train: {ENDED}"),
        (["job", "one"], "default/one-0: the pod has ended (Succeeded); it was never bound"),
        (["pod/one-0"], "default/one-0: the pod has ended (Succeeded); it was never bound"),
        (["job/nope"], "default/nope: no such pod of a Job of this name is bound or waiting"),
        (["job/far"], "default/far: not in namespace default, but in other: use -n"),
    ],
)
async def test_what_became_of_ended_pods_is_one_line(capsys, words, reported):
    """Pods of other namespaces do not count; a name without any pod is stated as unknown."""
    async with Sandbox(SandboxOptions(shape=plain_shape(1))) as sandbox:
        fill(sandbox, "train", ("Succeeded", "Failed", "Succeeded"))
        fill(sandbox, "one", ("Succeeded",))
        other = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}}
        sandbox.store.create(kinds.NAMESPACES, other)
        fill(sandbox, "far", ("Failed",), "other")
        flags = ["--kubeconfig", str(sandbox.kubeconfig_path)]
        code = await asyncio.to_thread(run, ["explain", *words, *flags])
    shown = capsys.readouterr()

    assert (1, "") == (code, shown.out)
    (line,) = [one for one in shown.err.splitlines() if one.startswith("error: ")]
    assert line.startswith(f"error: {reported}")
