"""The gauges of load figures: few series, right at the time of the scrape."""

from scheduler.base.clock import ManualClock
from scheduler.base.meters import Meters
from scheduler.config import load
from scheduler.daemon.gauges import show_ages, show_devices
from scheduler.engine.effects import Watched
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.plain import read_node, read_object
from scheduler.testing.builders import node
from scheduler.testing.scene import NOW
from tests.unit.plugins.loadaware.situation import report
from tests.unit.simulate.asking import HEAD

CONFIG = (
    f"{HEAD}profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: LoadAwareScheduling}}]}}}}}}]"
)


def gauges(meters: Meters, name: str) -> dict[str, float]:
    """Return the values of a gauge by its label."""
    for spec, samples in meters.collect():
        if spec.name == name:
            return {one.labels[0]: float(one.value) for one in samples}  # type: ignore[arg-type]
    return {}


def engine(config: str) -> Engine:
    """Return an engine with four nodes, three of which have reported."""
    registry = Registry(IN_TREE)
    found = Engine(load(config, file="test", registry=registry).profiles, registry)
    for name in ("a", "b", "c", "d"):
        found.handle(Watched("Node", "ADDED", read_node(node(name))), NOW)
    for metric in (report("a", age_s=10), report("b", age_s=170), report("c", age_s=None)):
        found.handle(Watched("NodeMetric", "ADDED", read_object(metric)[1]), NOW)
    return found


def test_ages_and_states_move_with_the_clock():
    """A report without a time is expired, but has no age."""
    meters, clock = Meters(), ManualClock(NOW)
    show_ages(engine(CONFIG), clock, meters)

    assert gauges(meters, "trellis_node_metric_age_seconds") == {
        "newest": 10,
        "median": 170,
        "oldest": 170,
    }
    assert gauges(meters, "trellis_node_metrics") == {"fresh": 2, "expired": 1, "missing": 1}
    clock.advance(10)  # the expiration of 180 s: the plugin does not use the report from now on
    assert gauges(meters, "trellis_node_metrics") == {"fresh": 1, "expired": 2, "missing": 1}


def test_without_the_plugin_no_device_is_reported_idle():
    """Values of an earlier daemon in the same process end with it."""
    meters = Meters()
    meters.devices_idle.read_from(lambda: 7.0)
    meters.devices_unusable.read_from(lambda: {"1": 3.0})
    show_devices(engine(CONFIG), meters)

    assert 0.0 == meters.devices_idle.value
    assert {} == gauges(meters, "trellis_devices_unusable")


def test_without_the_plugin_there_are_no_gauges():
    """Values that no plugin uses are not shown."""
    meters = Meters()
    without = "multiPoint: {disabled: [{name: LoadAwareScheduling}]}"
    plain = f"{HEAD}profiles: [{{plugins: {{{without}}}}}]"
    show_ages(engine(plain), ManualClock(NOW), meters)

    assert gauges(meters, "trellis_node_metric_age_seconds") == {}
    assert gauges(meters, "trellis_node_metrics") == {}
