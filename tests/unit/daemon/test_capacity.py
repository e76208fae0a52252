"""The metric of capacity: the counts, the counting process, and shapes that cannot be counted."""

import pytest
import yaml

from scheduler.base.clock import ManualClock
from scheduler.base.meters import Meters
from scheduler.config import default_config
from scheduler.daemon.answering import AnswerPool, AnswerSettings
from scheduler.daemon.helperparts import CapacityWatch
from scheduler.engine.effects import Leading, Watched
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.plain import read_node, read_pod
from scheduler.testing import node, pod
from tests.unit.plugins.groupobjects import group, members

REGISTRY = Registry(IN_TREE)
NOW = 1_767_225_600.0
SHAPES = {
    "small": yaml.safe_dump(pod("small", requests={"cpu": "1"})),
    "huge": yaml.safe_dump(pod("huge", requests={"cpu": "99"})),
    "job": yaml.safe_dump_all([group("job", 2), *members("job", 2)]),
    "two": yaml.safe_dump_all([pod("one"), pod("two")]),
    "broken": "{",
}


@pytest.mark.allow_blocking("a helper process is started")
async def test_every_shape_is_counted_by_who_leads(logged):
    """Pods one by one, groups as a whole.

    A shape that cannot be counted has no value and a reason, logged once.
    """
    clock, meters = ManualClock(NOW), Meters()
    engine = Engine(default_config(REGISTRY).profiles, REGISTRY)
    for kind, obj in (
        ("Node", read_node(node("n", cpu="6"))),
        ("Pod", read_pod(pod("old", node_name="n", requests={"cpu": "1"}))),
        ("Pod", read_pod(pod("small", requests={"cpu": "4"}))),
    ):
        engine.handle(Watched(kind, "ADDED", obj), NOW)
    helper = AnswerPool(clock, AnswerSettings("scheduler.cli.jobs.pagejobs"))
    watch = CapacityWatch(engine, helper, clock, meters, SHAPES, 60.0)

    def shown():
        return {
            sample.labels[0]: sample.value
            for spec, samples in meters.collect()
            if spec.name == "trellis_capacity_pods"
            for sample in samples
        }

    try:
        engine.handle(Leading(active=False), NOW)
        await watch.count()
        assert {} == shown()
        engine.handle(Leading(active=True), NOW)
        await watch.count()
        await watch.count()
        assert {"small": 5, "huge": 0, "job": 2} == shown()
        reported = {
            one["shape"]: one["reason"]
            for one in logged
            if one["event"] == "a shape cannot be counted"
        }
        assert {"two", "broken"} == set(reported)
        assert "one pod that is not bound is needed for the shape, not 2" in reported["two"]
        assert reported["broken"].startswith("broken:")
        assert 2 == sum(one["event"] == "a shape cannot be counted" for one in logged)
        engine.handle(Leading(active=False), NOW)
        await watch.count()
        assert {} == shown()
    finally:
        await helper.close()


@pytest.fixture
def logged():
    """Collect the log records."""
    from structlog.testing import capture_logs

    with capture_logs() as entries:
        yield entries
