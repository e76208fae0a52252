"""The operator of NetworkTopology on the sandbox's store, in virtual time, with injected faults."""

from itertools import pairwise

import pytest
import yaml

from operators.networktopology.operator import RECIPE
from tests.unit.operators import operatorrig
from tests.unit.operators.operatorrig import CRDS, Answer, passed

KEY = ("default", "nt")
DEFINITION = yaml.safe_load((CRDS / "networktopologies.yaml").read_text())
pytestmark = pytest.mark.looptime


class OperatorRig(operatorrig.OperatorRig):
    """A store with one NetworkTopology."""

    def __init__(self, *, without: tuple[str, ...] = (), interval_s: float = 1.0) -> None:
        super().__init__(RECIPE, DEFINITION, "nt", without=without, interval_s=interval_s)


async def test_many_changes_are_one_write_per_interval():
    """Nodes are added and deleted for half a minute: one write per second, and the final state is
    right.
    """
    rig = OperatorRig(interval_s=1.0)
    async with rig.open():
        for step in range(1500):
            rig.nodes(1 + step % 7)
            await passed(0.02)
        rig.nodes(4)
        await passed(3)

    assert 4 == rig.status["nodeCount"]
    assert 15 <= len(rig.sent) <= 33


async def test_heartbeats_write_nothing():
    """Updates of nodes that leave their number alone cost no request."""
    rig = OperatorRig()
    async with rig.open():
        rig.nodes(3)
        await passed(5)
        before = len(rig.sent)
        for _ in range(100):
            rig.nodes(3)
            await passed(1)

    assert 3 == rig.status["nodeCount"]
    assert before == len(rig.sent) <= 2


async def test_a_lost_race_keeps_what_the_other_wrote():
    """A write with an old version fails; the next one follows the event."""
    rig = OperatorRig()
    other = {
        "type": "Measured",
        "status": "True",
        "reason": "Done",
        "message": "",
        "lastTransitionTime": "2026-03-01T10:00:00Z",
    }
    async with rig.open():
        await passed(3)
        rig.is_late = True
        obj = rig.store.get(rig.resource, *KEY).obj
        theirs = {**obj, "status": {**obj["status"], "conditions": [other]}}
        rig.store.update(rig.resource, theirs, subresource="status")
        rig.nodes(2)
        await passed(3)
        assert 0 == rig.status["nodeCount"]
        assert [] == rig.reports
        rig.is_late = False
        rig.deliver()
        await passed(3)

    assert 2 == rig.status["nodeCount"]
    assert ["Measured", "Ready"] == [one["type"] for one in rig.status["conditions"]]


async def test_an_object_that_is_gone_is_forgotten():
    """The deletion of an object whose event was missed costs a few requests, not one per node
    change.
    """
    rig = OperatorRig()
    async with rig.open():
        await passed(3)
        rig.is_late = True
        rig.store.delete(rig.resource, *KEY)
        before = len(rig.sent)
        for count in range(1, 20):
            rig.nodes(count)
            await passed(2)

    pauses = [round(later - earlier) for earlier, later in pairwise(rig.sent[before:])]
    assert [2, 4, 8] == pauses
    assert [] == rig.reports


async def test_a_subresource_may_come_later_than_its_definition():
    """A subresource that a server does not find for a moment is written soon after, without a
    change.
    """
    rig = OperatorRig()
    async with rig.open():
        await passed(3)
        rig.faults.extend([Answer(404, message="404 page not found")] * 2)
        rig.nodes(3)
        await passed(10)

    assert 3 == rig.status["nodeCount"]
    assert [] == rig.reports


async def test_failures_are_tried_again_more_and_more_seldom():
    """The pause grows from the interval to the limit; each failure and the recovery are
    reported.
    """
    rig = OperatorRig()
    async with rig.open():
        await passed(3)
        before = len(rig.sent)
        rig.faults.extend([Answer(503, message="shutting down"), Answer(0), *[Answer(403)] * 6])
        rig.nodes(5)
        await passed(60)

    tried = rig.sent[before:]
    pauses = [round(later - earlier) for earlier, later in pairwise(tried)]
    assert [2, 4, 8, 8, 8, 8, 8, 8] == pauses
    assert 5 == rig.status["nodeCount"]
    assert "503 shutting down" in rig.reports[0]
    assert "0 no answer" in rig.reports[1]
    assert [""] == rig.reports[8:]


async def test_fields_that_the_schema_drops_are_not_written_for_ever():
    """An older schema with a status subresource: one try per change, not one per round."""
    rig = OperatorRig(without=("conditions", "observedGeneration"))
    async with rig.open():
        await passed(3)
        rig.nodes(2)
        await passed(600)

    assert {"nodeCount": 2} == rig.status
    assert len(rig.sent) <= 4


async def test_an_unreadable_object_hurts_no_other():
    """An object that an older cluster accepted is reported and skipped until it can be read."""
    rig = OperatorRig()
    meta = {"name": "bad", "namespace": "default", "resourceVersion": "1", "uid": "u"}
    rig.operator.seen("ADDED", {"metadata": meta, "spec": {"weights": "none"}})
    async with rig.open():
        rig.nodes(2)
        await passed(3)

    assert 2 == rig.status["nodeCount"]
    assert [] == rig.reports
