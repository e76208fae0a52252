"""Members of a gang are bound when enough of them have done their pre-bind for the group to
begin.
"""

from collections.abc import Generator

from scheduler.config import load
from scheduler.engine.effects import Answer, Bind, Effects, Leading, Record, SetStatus, Watched
from scheduler.engine.engine import Engine
from scheduler.engine.settings import EngineSettings
from scheduler.framework.args import NoArgs
from scheduler.framework.calls import BindStep, CallResult, WaitUntil
from scheduler.framework.cycle import Cycle
from scheduler.framework.plugin import Plugin
from scheduler.framework.registry import Registry
from scheduler.framework.status import SUCCESS, Code, Status
from scheduler.intree import IN_TREE
from scheduler.objects.groups.podgroup import PodGroup, PodGroupSpec
from scheduler.objects.meta import AnnotatedMeta
from tests.property.making import make_node, make_pod, with_spec

NOW = 1_767_225_600.0
GROUP = "scheduling.x-k8s.io/pod-group"
TIMEOUT_S = 100.0


class SlowVolumes(Plugin[NoArgs]):
    """Before binding, waits until a node is labelled with the name of the pod."""

    reads = ("node.labels",)

    def pre_bind(self, cycle: Cycle, node: str) -> Generator[BindStep, CallResult, Status]:
        name = cycle.pod.metadata.name

        def is_ready() -> bool:
            found = self.handle.node("n0")
            return found is not None and name in found.metadata.labels

        answer = yield WaitUntil(is_ready, ("node.labels",), TIMEOUT_S, f"{name} has its volumes")
        return SUCCESS if answer.ok else Status(Code.ERROR, ("no volume came",))


REGISTRY = Registry((*IN_TREE, SlowVolumes))
PROFILES = load(
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    "profiles: [{schedulerName: trellis, plugins: {multiPoint: {enabled: [{name: "
    "SlowVolumes}]}}}]\n",
    file="test.yaml",
    registry=REGISTRY,
).profiles


class Cluster:
    """An engine, one node, and a gang `g` whose members have volumes."""

    def __init__(self, size: int, minimum: int, *, running: int = 0) -> None:
        self.engine = Engine(PROFILES, REGISTRY, settings=EngineSettings(solves_inline=True))
        self.now = NOW
        self.pods = {}
        self.handle(Leading(active=True))
        self.ready: dict[str, str] = {}
        self.handle(Watched("Node", "ADDED", make_node("n0", cpu=size)))
        meta = AnnotatedMeta(name="g", namespace="default", uid="g")
        self.handle(Watched("PodGroup", "ADDED", PodGroup(meta, PodGroupSpec(minimum))))
        for number in range(size):
            node = "n0" if number < running else ""
            pod = make_pod(f"g-{number}", labels={GROUP: "g"}, node=node)
            self.pods[pod.metadata.name] = pod
            self.handle(Watched("Pod", "ADDED", pod))

    def add(self, pod) -> None:
        """Add a pod that is no member."""
        self.pods[pod.metadata.name] = pod
        self.handle(Watched("Pod", "ADDED", pod))

    def remove(self, name: str) -> None:
        """Delete a pod that runs."""
        running = with_spec(self.pods.pop(name), node_name="n0")
        self.handle(Watched("Pod", "DELETED", running))

    def places(self, *names: str) -> list[str]:
        """Return in which queue pods wait."""
        uids = [self.pods[name].metadata.uid for name in names]
        queued = (self.engine.queues.get(uid) for uid in uids)
        return [one.where.value for one in queued if one is not None]

    def handle(self, event: object) -> None:
        self.engine.handle(event, self.now)  # type: ignore[arg-type]

    def volumes_of(self, *names: str) -> list[Effects]:
        """Make the volumes of some pods ready; return the engine's effects."""
        self.ready |= dict.fromkeys(names, "")
        node = make_node("n0", cpu=len(self.pods), labels=self.ready)
        self.handle(Watched("Node", "MODIFIED", node))
        return self.settle()

    def settle(self) -> list[Effects]:
        """Run turns until no work is left."""
        found: list[Effects] = []
        for _ in range(50):
            effects = list(self.engine.run(self.now, 50))
            found += effects
            for one in effects:
                if isinstance(one, Bind):
                    self.handle(Answer(one.id, 200))
                    bound = with_spec(self.pods[one.name], node_name=one.node)
                    self.handle(Watched("Pod", "MODIFIED", bound))
            if not effects and not self.engine.has_work():
                break
        return found

    def later(self, seconds: float) -> list[Effects]:
        self.now += seconds
        return self.settle()


def bound(effects: list[Effects]) -> list[str]:
    return sorted(one.name for one in effects if isinstance(one, Bind))


def reported(effects: list[Effects]) -> dict[str, tuple[str, str]]:
    """Return reason and message of the conditions that are written, by pod."""
    return {
        one.name: (one.condition.reason, one.condition.message)
        for one in effects
        if isinstance(one, SetStatus) and one.condition is not None
    }


def test_no_member_is_bound_before_the_volumes_of_all_are_ready():
    """The last volume binds them all; after half a minute their conditions name the awaited
    members.
    """
    cluster = Cluster(3, 3)
    assert [] == bound(cluster.settle())
    assert [] == bound(cluster.volumes_of("g-0", "g-2"))
    written = cluster.later(31)
    assert [] == bound(written)
    reason, text = reported(written)["g-0"]
    assert "WaitingOnPreBind" == reason
    assert text.endswith(
        "its group is bound together, and waits for the volumes or claims of default/g-1"
    )
    assert reported(written)["g-1"][1].endswith("until g-1 has its volumes")
    events = {one.name for one in written if isinstance(one, Record)}
    assert {"g-0", "g-1", "g-2"} == events
    assert ["g-0", "g-1", "g-2"] == bound(cluster.volumes_of("g-1"))


def test_one_volume_that_never_comes_binds_none():
    """At the timeout all release their capacity, the conditions name the member, and all are tried
    again.
    """
    cluster = Cluster(3, 3)
    cluster.settle()
    cluster.volumes_of("g-0", "g-2")
    written = cluster.later(TIMEOUT_S + 1)

    assert [] == bound(written)
    failure = 'running PreBind plugin "SlowVolumes": no volume came'
    recalled = f"the group default/g is bound together, and default/g-1 failed: {failure}"
    assert {
        "g-0": ("Unschedulable", recalled),
        "g-1": ("SchedulerError", failure),
        "g-2": ("Unschedulable", recalled),
    } == reported(written)
    # After the back-off they are planned again, and bound with the volume.
    cluster.later(2)
    assert ["g-0", "g-1", "g-2"] == bound(cluster.volumes_of("g-1"))


def test_others_use_the_capacity_during_the_back_off():
    """A gang whose volume never arrives does not reserve its node again before others were
    tried.
    """
    cluster = Cluster(3, 3)
    cluster.settle()
    cluster.volumes_of("g-0", "g-2", "early", "late")
    for name in ("early", "late"):
        cluster.add(make_pod(name))
        assert [] == bound(cluster.settle())  # the gang has reserved the node
        assert [name] == bound(cluster.later(TIMEOUT_S + 1))
        assert ["error backoff"] * 3 == cluster.places("g-0", "g-1", "g-2")
        cluster.remove(name)
        assert [] == bound(cluster.later(10))
        assert 3 == len(cluster.engine.bindings)


def test_what_fits_nowhere_releases_the_capacity():
    """After the timeout the node is cordoned: no member keeps capacity, and the group waits as a
    whole.
    """
    cluster = Cluster(3, 3)
    cluster.settle()
    cluster.volumes_of("g-0")
    node = make_node("n0", cpu=3, labels={"g-0": ""}, unschedulable=True)
    cluster.handle(Watched("Node", "MODIFIED", node))
    cluster.later(TIMEOUT_S + 1)

    assert 0 == len(cluster.engine.bindings)
    assert [] == list(cluster.engine.cluster.pods)
    for pod in cluster.pods.values():
        assert cluster.engine.queues.get(pod.metadata.uid) is not None


def test_members_beyond_the_minimum_are_not_waited_for():
    """Two of four may begin; the others follow one by one."""
    cluster = Cluster(4, 2)
    cluster.settle()
    assert [] == bound(cluster.volumes_of("g-3"))
    assert ["g-1", "g-3"] == bound(cluster.volumes_of("g-1"))
    assert ["g-0"] == bound(cluster.volumes_of("g-0"))


def test_a_running_group_is_joined_one_by_one():
    """A running group does not begin again: the replacement of a lost member waits for no other."""
    cluster = Cluster(4, 4, running=2)
    cluster.settle()
    assert ["g-3"] == bound(cluster.volumes_of("g-3"))


def test_a_member_that_is_deleted_while_others_wait():
    """The others are released, and planned again when the group is complete."""
    cluster = Cluster(2, 2)
    cluster.settle()
    cluster.volumes_of("g-0")
    cluster.handle(Watched("Pod", "DELETED", cluster.pods["g-1"]))
    assert [] == bound(cluster.settle())
    assert 0 == len(cluster.engine.bindings)
    cluster.handle(Watched("Pod", "ADDED", cluster.pods["g-1"]))
    assert ["g-0", "g-1"] == bound(cluster.volumes_of("g-1"))
