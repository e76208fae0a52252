"""`explain -f` and `simulate -f` name the same node for a pod that a live cluster does not have."""

import asyncio
import json

import pytest

from scheduler.cli.main import run
from scheduler.sandbox.kinds import kinds
from scheduler.sandbox.nodes.shape import plain_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.testing import pod

pytestmark = pytest.mark.allow_blocking("files")


async def test_a_given_pod_goes_where_simulate_places_it(tmp_path, capsys):
    """Its uid is not known, so of equal nodes the lowest name stands for all; the uid decides for a
    pod of the cluster, as in the daemon.
    """
    names = [f"new-{number}" for number in range(4)]
    for name in names:
        new = {**pod(name), "metadata": {"name": name, "namespace": "default"}}
        (tmp_path / name).write_text(json.dumps(new))
    async with Sandbox(SandboxOptions(shape=plain_shape(6))) as sandbox:
        flags = ["--kubeconfig", str(sandbox.kubeconfig_path)]
        for name in names:
            file = ["-f", str(tmp_path / name)]
            assert await asyncio.to_thread(run, ["simulate", *file, *flags, "-o", "json"]) == 0
            (placed,) = json.loads(capsys.readouterr().out)["pods"]
            assert await asyncio.to_thread(run, ["explain", *file, *flags]) == 0
            first = capsys.readouterr().out.splitlines()[0]
            assert f"would go to {placed['node']}: " in first
            assert first.endswith("the name decides")
        old = {**pod("old"), "metadata": {"name": "old", "namespace": "default"}}
        sandbox.store.create(kinds.PODS, old)
        await asyncio.to_thread(run, ["explain", "old", *flags])
        assert capsys.readouterr().out.splitlines()[0].endswith("the pod's uid decides")
