"""Pods that have left count for the mix through a PodMixHistory object, and through it alone."""

import msgspec
import pytest

from scheduler.base.errors import ConfigError
from scheduler.config import load
from scheduler.engine.effects import Answer, Call, Leading, Watched
from scheduler.engine.engine import Engine
from scheduler.intree import registry
from scheduler.kube.watching.decode import DecodeFault, Decoder
from scheduler.objects.kinds import BY_KIND
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.plain import read_node, read_pod
from scheduler.objects.reports.podmix import MOST_HISTORY_SHAPES, HistoryShape, PodMixHistory
from scheduler.plugins.fragmentation import FragmentationAware
from scheduler.simulate.cluster.rest import Rest
from scheduler.testing import node
from scheduler.testing.scene import NOW
from tests.unit.simulate.asking import HEAD, pod

GPU, KIND, DAY_S = "nvidia.com/gpu", "PodMixHistory", 86400.0
PLUGIN = "plugins: {multiPoint: {enabled: [{name: FragmentationAware}]}}"


def profile(name, args):
    """Return a profile with the plugin and its arguments."""
    config = f"pluginConfig: [{{name: FragmentationAware, args: {{{args}}}}}]"
    return f"{{schedulerName: {name}, {PLUGIN}, {config}}}"


CONFIG = f"{HEAD}profiles: [{profile('trellis', 'history: gpu, historyHalfLifeHours: 24')}]"


class Site:
    """An engine, and the API server's copy of its PodMixHistory."""

    def __init__(self, *, leads=True, found=None):
        known = registry()
        self.engine = Engine(load(CONFIG, file="test", registry=known).profiles, known)
        self.faults: list[tuple[str, str, Exception]] = []
        self.engine.report_to(on_fault=lambda *fault: self.faults.append(fault))
        (self.plugin,) = (
            one for one in self.engine.view.plugins() if isinstance(one, FragmentationAware)
        )
        self.engine.handle(Leading(active=leads), NOW)
        made = node("n", allocatable={GPU: 64})
        self.engine.handle(Watched("Node", "ADDED", read_node(made)), NOW)
        if found is not None:
            self.see(found, NOW)

    @property
    def found(self):
        """Return the object in the memory of the engine."""
        return self.engine.cluster.store.of(KIND).get("gpu")

    def see(self, found, now):
        """Send a version of the object to the engine."""
        self.engine.handle(Watched(KIND, "MODIFIED", found), now)

    def run_once(self, name, gpus, now, cpu="2"):
        """Bind a pod and delete it; return the engine's requests."""
        made = read_pod(pod(name, node_name="n", requests={"cpu": cpu, GPU: gpus}))
        self.engine.handle(Watched("Pod", "ADDED", made), now)
        self.engine.handle(Watched("Pod", "DELETED", made), now)
        return [one for one in self.engine.run(now, 0) if isinstance(one, Call)]

    def serve(self, calls, now):
        """Carry requests out, as the API server would."""
        for call in calls:
            answer, events = Rest(self.engine.cluster).call(call)
            assert answer.ok, answer
            for event in events:
                self.engine.handle(event, now)
            self.engine.handle(answer, now)

    def mix(self):
        """Return the mix that the tables of a new process would be computed from."""
        assert self.plugin.inventory.version > 0
        return self.plugin.inventory._mix()


def weights(found):
    """Return the weight by number of devices."""
    return {shape.devices: shape.weight for shape in found.shapes}


def test_a_restart_and_a_simulation_see_the_same_mix():
    """The mix follows from the object: an engine that reads it counts the same pods as the
    writer.
    """
    site = Site()
    site.serve(site.run_once("a", 8, NOW), NOW)
    site.serve(site.run_once("b", 2, NOW + 400), NOW + 400)
    fresh = Site(leads=False, found=site.found)

    assert {8, 2} == {shape.devices for shape, _ in site.mix().shapes}
    assert site.mix() == fresh.mix()


def test_a_pod_counts_only_once_it_is_written():
    """A pod that only this process has seen is no part of the mix."""
    site = Site()
    calls = site.run_once("a", 8, NOW)
    assert () == site.mix().shapes

    site.serve(calls, NOW)
    assert [8] == [shape.devices for shape, _ in site.mix().shapes]


def test_weights_halve_per_half_life():
    """A pod that left a day ago weighs half of one that leaves now."""
    site = Site()
    site.serve(site.run_once("a", 8, NOW), NOW)
    site.serve(site.run_once("b", 1, NOW + DAY_S), NOW + DAY_S)

    assert {8: 0.5, 1: 1.0} == weights(site.found)


def test_it_is_written_once_per_period():
    """Pods that leave within the period are written together by a later change."""
    site = Site()
    site.serve(site.run_once("a", 8, NOW), NOW)
    for number in range(5):
        assert [] == site.run_once(f"b{number}", 1, NOW + 10 * number)
    site.serve(site.run_once("c", 2, NOW + 301), NOW + 301)

    # The change that binds "c" precedes its deletion.
    assert weights(site.found).keys() == {8, 1}
    assert 5.0 == weights(site.found)[1]


def test_a_shape_without_a_part_uses_whole_devices():
    """A shape without `part` uses whole devices, as in the arguments: an object of a user counts
    like one of a leader.
    """
    found = PodMixHistory(
        metadata=ObjectMeta(name="gpu"), shapes=(HistoryShape(weight=1.0, cpu="2", devices=8),)
    )
    site = Site()
    site.serve(site.run_once("a", 8, NOW), NOW)

    assert site.mix() == Site(found=found).mix()


def test_an_object_of_the_future_is_written_again():
    """A daemon with a wrong clock has written it: its weights stay, and its time is replaced."""
    site = Site()
    site.serve(site.run_once("a", 8, NOW + DAY_S), NOW + DAY_S)
    fresh = Site(found=site.found)
    fresh.serve(fresh.run_once("b", 1, NOW), NOW)

    assert {8: 1.0, 1: 1.0} == weights(fresh.found)
    assert fresh.found.as_of < site.found.as_of


def test_a_standby_writes_nothing_and_counts_nothing_twice():
    """When it leads, pods that the former leader has written are not written again."""
    leader, standby = Site(), Site(leads=False)
    calls = leader.run_once("a", 8, NOW)
    assert [] == standby.run_once("a", 8, NOW)
    leader.serve(calls, NOW)
    standby.see(leader.found, NOW)
    standby.engine.handle(Leading(active=True), NOW + 400)
    standby.serve(standby.run_once("b", 1, NOW + 400), NOW + 400)

    assert {8, 1} == weights(standby.found).keys()
    assert weights(standby.found)[8] <= 1.0


def test_the_object_is_bounded():
    """Of more shapes than the limit, those with the most devices are kept."""
    site = Site()
    for number in range(MOST_HISTORY_SHAPES + 20):
        calls = site.run_once(f"p{number}", 1 + number % 8, NOW, cpu=f"{number + 1}m")
        if number:
            assert [] == calls
        site.serve(calls, NOW)
    assert [] == site.run_once("last", 64, NOW + 1)
    site.serve(site.run_once("later", 1, NOW + 301), NOW + 301)

    assert MOST_HISTORY_SHAPES == len(site.found.shapes)
    assert 64 == site.found.shapes[0].devices


def test_a_failed_write_is_reported_and_repeated():
    """The next write, with the change that binds another pod, has the pods of the failed one."""
    site = Site()
    (call,) = site.run_once("a", 8, NOW)
    site.engine.handle(Answer(call.id, 403, "Forbidden", "no"), NOW)
    assert [] == site.faults
    site.serve(site.run_once("b", 1, NOW + 301), NOW + 301)

    ((plugin, _, error),) = site.faults
    assert "FragmentationAware" == plugin
    assert 'PodMixHistory "gpu" was not written' in str(error)
    assert {8: 1.0} == weights(site.found)


def test_an_assumed_pod_that_is_forgotten_has_not_left():
    """A binding that failed is no pod that ran."""
    site = Site()
    made = read_pod(pod("a", requests={"cpu": "1", GPU: 8}))
    site.engine.intake.follow(site.engine.cluster.assume(made, "n"))
    site.engine.intake.follow(site.engine.cluster.forget(made.metadata.uid))

    assert [] == [one for one in site.engine.run(NOW, 0) if isinstance(one, Call)]


@pytest.mark.parametrize(
    "change",
    [{"asOf": "yesterday"}, {"shapes": [{"weight": -1}]}, {"shapes": [{"weight": 1, "cpu": "x"}]}],
)
def test_an_unreadable_object_is_reported_by_name(change):
    """An unreadable object does not reach the engine, where the last readable one stays."""
    reports: list[DecodeFault] = []
    decoder = Decoder(BY_KIND[KIND], reports.append)
    raw = {"metadata": {"name": "gpu"}, "asOf": "2026-03-01T10:00:00Z"} | change

    assert decoder._one(msgspec.json.encode(raw)) is None
    assert ["gpu"] == [one.key for one in reports]
    assert isinstance(decoder._one(b'{"metadata": {"name": "gpu"}}'), PodMixHistory)


def test_one_object_belongs_to_one_set_of_arguments():
    """Two profiles that count by different arguments need two names."""
    same = profile("a", "history: x"), profile("b", "history: x")
    other = profile("a", "history: x"), profile("b", "history: x, resources: [memory]")
    known = registry()
    Engine(load(f"{HEAD}profiles: [{', '.join(same)}]", file="t", registry=known).profiles, known)
    profiles = load(f"{HEAD}profiles: [{', '.join(other)}]", file="t", registry=known).profiles
    with pytest.raises(ConfigError, match='history "x"'):
        Engine(profiles, known)
