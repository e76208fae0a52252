"""`trellis status` names the leader by its Lease, whatever the Lease is called."""

import asyncio
import json

import pytest

from scheduler.about import VERSION as OURS
from scheduler.cli.main import run
from scheduler.cli.verbs.observe.status import misspelt, origin
from scheduler.config import default_config, load
from scheduler.config.presets import PRESETS
from scheduler.intree import registry
from scheduler.kube.leaserecord import CONFIGURATION_ERROR, ENDPOINT, VERSION
from scheduler.objects.plain import read_pod
from scheduler.sandbox.kinds import kinds
from scheduler.sandbox.nodes.shape import plain_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.snapshot.snapshot import Snapshot
from scheduler.testing import pod

pytestmark = pytest.mark.allow_blocking("files")
NOTES = {VERSION: OURS, ENDPOINT: "https://10.0.0.1:10259"}


def lease(sandbox, name, holder, notes, namespace="default"):
    """Create a Lease with a holder."""
    sandbox.store.create(
        kinds.LEASES,
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace, "annotations": notes},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
        },
    )


@pytest.mark.parametrize(
    ("leases", "found"),
    [
        ({"team-gpu": NOTES}, "host-team-gpu (Lease default/team-gpu)"),
        (
            {"team-gpu": NOTES, "kube-controller-manager": {}},
            "host-team-gpu (Lease default/team-gpu)",
        ),
        ({"trellis": NOTES, "team-gpu": NOTES}, "host-trellis (Lease default/trellis)"),
        (
            {"team-gpu": NOTES, "team-web": NOTES},
            "2 daemons lead (Leases default/team-gpu, default/team-web)",
        ),
        ({"kube-controller-manager": {}}, "no daemon leads: start one (trellis run)"),
    ],
    ids=lambda given: ",".join(given) if isinstance(given, dict) else "",
)
async def test_the_leader_is_found_by_the_notes_on_its_lease(capsys, leases, found):
    """Leases of kubelets and of other components do not count; the default name comes first."""
    async with Sandbox(SandboxOptions(shape=plain_shape(1))) as sandbox:
        for name, notes in leases.items():
            lease(sandbox, name, f"host-{name}_uid", notes)
        flags = ["--kubeconfig", str(sandbox.kubeconfig_path), "-o", "json"]
        code = await asyncio.to_thread(run, ["status", *flags])
    lines = {one["what"]: one for one in json.loads(capsys.readouterr().out)["items"]}

    assert found in lines["leader"]["text"]
    is_one = found.startswith("host")
    assert ("OK" if is_one else "Problem").lower() == lines["leader"]["state"].lower()
    assert (0 if is_one else 1) == code
    if is_one:
        assert "https://10.0.0.1:10259" in lines["endpoint"]["text"]
        assert OURS == lines["version"]["text"]


async def test_a_configuration_file_that_became_invalid_is_a_problem(capsys):
    """The daemon goes on with the last valid one; its Lease states the error."""
    notes = {**NOTES, CONFIGURATION_ERROR: 'config.yaml:3:1: unknown field "profile"'}
    async with Sandbox(SandboxOptions(shape=plain_shape(1))) as sandbox:
        lease(sandbox, "trellis", "host_uid", notes)
        flags = ["--kubeconfig", str(sandbox.kubeconfig_path), "-o", "json"]
        code = await asyncio.to_thread(run, ["status", *flags])
    lines = {one["what"]: one for one in json.loads(capsys.readouterr().out)["items"]}

    assert code == 1
    assert lines["configuration file"] == {
        "what": "configuration file",
        "state": "problem",
        "text": "invalid, the last valid one stays in use: "
        'config.yaml:3:1: unknown field "profile"',
    }


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "the defaults"),
        (PRESETS["gpu"], "profile gpu"),
        (PRESETS["gpu"].replace("weight: 10", "weight: 9"), "a file"),
    ],
)
def test_a_configuration_is_named_by_where_its_decisions_come_from(text, found):
    """A daemon that runs with a preset does not run with a file."""
    known = registry()
    loaded = load(text, file="config.yaml", registry=known) if text else default_config(known)

    assert origin(loaded, known) == found


@pytest.mark.parametrize(
    ("profiles", "meant"),
    [
        (["trellis"], ["trellis"]),
        (["trellis", "trellis-gpu"], ["trellis-gpu"]),
        (["trellis", "trellis-gpus"], []),
        (["fast", "default-scheduler"], []),
    ],
)
def test_scheduler_names_are_compared_with_the_profiles_of_the_daemon(profiles, meant):
    """A profile of the daemon's file, or another scheduler, is not misspelt."""
    names = ("trellis-gpus", "default-scheduler", "volcano")
    waiting = (read_pod(pod(name, spec={"schedulerName": name})) for name in names)

    found = [one.text for one in misspelt(Snapshot(unbound=tuple(waiting)), profiles)]

    text = '1 pod waits for "trellis-gpus", which is no profile: did you mean'
    assert [f"{text} {name}?" for name in meant] == found
