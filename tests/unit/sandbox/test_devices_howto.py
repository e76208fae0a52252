"""The objects of the guide to GPUs and fabric domains publish, request and select as described."""

import re
from pathlib import Path

import yaml

from scheduler.cel import DeviceInput, Quantity, compile_selector
from scheduler.sandbox.controllers.resourceclaims import ResourceClaims
from scheduler.sandbox.kinds.kinds import (
    DEVICECLASSES,
    PODS,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    RESOURCESLICES,
)
from scheduler.sandbox.nodes.shape import ClusterShape, device_slices, shape_of
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from tests.unit.sandbox.cluster import SimulatedCluster

GUIDE = Path(__file__).parents[3] / "docs" / "howto" / "devices.md"
BLOCKS = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


def shape() -> ClusterShape:
    return shape_of(yaml.safe_load(BLOCKS[0]))


def test_a_pod_gets_the_claim_it_asks_for():
    """Class, template and pod are taken unchanged, and the claim is made."""
    here = SimulatedCluster(actors=[ResourceClaims], bind=False)
    device_class, template = yaml.safe_load_all(BLOCKS[1])
    here.store.create(DEVICECLASSES, device_class)
    here.store.create(RESOURCECLAIMTEMPLATES, template, "default")
    pod = {"metadata": {"name": "p"}, **yaml.safe_load(BLOCKS[2])}
    here.store.create(PODS, pod, "default")
    here.settle()

    (claim,) = here.store.list(RESOURCECLAIMS, "default")
    assert (
        template["spec"]["spec"]["devices"]["constraints"]
        == (claim.obj["spec"]["devices"]["constraints"])
    )


def test_its_selectors_choose_its_devices():
    """Each device that the shape publishes is one of the class and large enough."""
    device_class, template = yaml.safe_load_all(BLOCKS[1])
    exactly = template["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    texts = [s["cel"]["expression"] for s in device_class["spec"]["selectors"]]
    texts += [s["cel"]["expression"] for s in exactly["selectors"]]
    seen = 0
    for _node, published in device_slices(shape()):
        for made in published["spec"]["devices"]:
            device = DeviceInput(
                published["spec"]["driver"],
                {name: next(iter(value.values())) for name, value in made["attributes"].items()},
                {name: Quantity.parse(v["value"]) for name, v in made["capacity"].items()},
            )
            assert all(compile_selector(text).evaluate(device) for text in texts)
            seen += 1
    assert 32 == seen


async def test_a_started_sandbox_has_the_slices():
    """The slices belong to their nodes, and are deleted with them."""
    async with Sandbox(SandboxOptions(shape=shape())) as sandbox:
        slices = sandbox.store.list(RESOURCESLICES, "")

        assert 4 == len(slices)
        (owner,) = slices[0].obj["metadata"]["ownerReferences"]
        assert ("Node", "dgx-0") == (owner["kind"], owner["name"])
