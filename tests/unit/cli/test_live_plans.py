"""A snapshot of a live cluster answers as the cluster does while a MovePlan reserves capacity."""

import asyncio
import json

import pytest
import yaml

from scheduler.cli.main import run
from scheduler.sandbox.kinds import kinds
from scheduler.sandbox.nodes.shape import plain_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from scheduler.testing import pod
from tests.unit.moves.test_other_plans import move, plan

pytestmark = pytest.mark.allow_blocking("files")


@pytest.mark.parametrize(("reserved", "fits"), [(1, 7), (4, 4)])
async def test_reserved_capacity_is_missing_live_and_in_a_snapshot(
    capsys, tmp_path, reserved, fits
):
    """One node of 8 CPUs, of which a plan reserves some; pods of one CPU are counted."""
    shape, file = tmp_path / "shape.yaml", tmp_path / "cluster.json"
    shape.write_text(yaml.safe_dump(pod("one", requests={"cpu": "1"})))
    async with Sandbox(SandboxOptions(shape=plain_shape(1))) as sandbox:
        (node,) = sandbox.store.list(kinds.NODES)
        served = sandbox.store.kinds.find("trellis.dev", "v1alpha1", "moveplans")
        assert served is not None
        other = move("gone", "n9", node.obj["metadata"]["name"], gpus=0, state="Evicted")
        other["requests"] = {"cpu": str(reserved)}
        raw = plan(other)
        made = sandbox.store.create(served, raw)
        begun = {**made.obj, "status": raw["status"]}
        sandbox.store.update(served, begun, subresource="status")

        async def asked(*words):
            await asyncio.to_thread(run, list(words))
            return capsys.readouterr().out

        where = ("--kubeconfig", str(sandbox.kubeconfig_path))
        words = ("capacity", "-f", str(shape), "-o", "json")
        live = await asked(*words, *where)
        file.write_text(await asked("snapshot", *where))
        stored = await asked(*words, "--snapshot", str(file))
        file.write_text(await asked("snapshot", "--anonymize", *where))
        hidden = await asked(*words, "--snapshot", str(file))

    assert [fits] * 3 == [json.loads(one)["fits"] for one in (live, stored, hidden)]
