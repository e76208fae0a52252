"""`TYPE/NAME` names the pods of a workload in a snapshot as it does in the cluster it is of."""

import asyncio
import json
from typing import Any

import pytest

from scheduler.cli.main import run
from scheduler.sandbox.kinds import kinds
from scheduler.sandbox.nodes.shape import plain_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions

pytestmark = pytest.mark.allow_blocking("files")
LABELS = {"app": "web"}
Json = dict[str, Any]
TEMPLATE: Json = {
    "metadata": {"labels": LABELS},
    "spec": {
        "schedulerName": "trellis",
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "99"}}}],
    },
}
APPS = {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": TEMPLATE}
RUN = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
WORKLOADS = {
    "deploy/web": (kinds.DEPLOYMENTS, APPS),
    "sts/web": (kinds.STATEFULSETS, {**APPS, "serviceName": "web"}),
    "job/web": (kinds.JOBS, {"parallelism": 2, "completions": 2, "template": RUN}),
}


@pytest.mark.parametrize("target", WORKLOADS)
async def test_a_workload_is_explained_from_a_snapshot(capsys, tmp_path, target):
    """A snapshot explains a workload as the live cluster does, by the owners that its pods name."""
    resource, spec = WORKLOADS[target]
    file = tmp_path / "cluster.json"
    async with Sandbox(SandboxOptions(shape=plain_shape(1))) as sandbox:

        async def asked(*words):
            await asyncio.to_thread(run, list(words))
            return capsys.readouterr().out

        made = asyncio.Event()
        sandbox.store.listen(lambda one, _: made.set() if one is kinds.PODS else None)
        meta = {"name": "web", "namespace": "default"}
        sandbox.store.create(resource, {"metadata": meta, "spec": spec})
        where = ("--kubeconfig", str(sandbox.kubeconfig_path))
        await made.wait()
        live = json.loads(await asked("explain", target, "-o", "json", *where))
        file.write_text(await asked("snapshot", *where))
        stored = json.loads(await asked("explain", target, "-o", "json", "--snapshot", str(file)))

    assert live["message"] == stored["message"] != ""
    assert live["nodes"] == stored["nodes"]
    assert (live["namespace"], live["name"]) == (stored["namespace"], stored["name"])
