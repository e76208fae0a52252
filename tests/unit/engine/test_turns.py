"""NamespaceSort: pods of one priority are tried in turns of their namespaces, however many pods
each has.
"""

from random import Random

from msgspec.structs import replace

from scheduler.config import load
from scheduler.engine.engine import Engine
from scheduler.engine.queue.pod import QueuedPod, Where
from scheduler.engine.queue.turnsactive import TurnsActiveQueue
from scheduler.framework.args import NoArgs
from scheduler.intree import registry
from scheduler.plugins.namespacesort import NamespaceSort
from tests.property.making import make_pod

NONE_BLOCKED: frozenset[str] = frozenset()
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: trellis
  plugins:
    queueSort:
      enabled: [{name: NamespaceSort}]
      disabled: [{name: "*"}]
"""


class Line:
    """A queue of active pods, named `namespace/number`."""

    def __init__(self) -> None:
        self.plugin = NamespaceSort(NoArgs(), None)  # type: ignore[arg-type]
        self.queue = TurnsActiveQueue(self.plugin.taking_turns)
        self.tickets = 0

    def add(self, name: str, *, priority: int = 0, profile: str = "trellis") -> QueuedPod:
        """Add a pod to the queue behind the existing ones."""
        namespace, _, own = name.partition("/")
        pod = make_pod(own, uid=name, priority=priority, scheduler=profile)
        pod = replace(pod, metadata=replace(pod.metadata, namespace=namespace))
        self.tickets += 1
        queued = QueuedPod(pod, self.tickets, float(self.tickets))
        queued.ticket, queued.where = self.tickets, Where.ACTIVE
        self.queue.push(self.plugin.sort_key(queued), queued)
        return queued

    def pop(self, blocked: frozenset[str] = NONE_BLOCKED) -> str:
        """Return the next pod, "" without one."""
        assert (self.queue.first(blocked) is None) is (self.queue._next(blocked) is None)
        queued = self.queue.pop(blocked)
        return "" if queued is None else queued.uid

    def rest(self) -> list[str]:
        """Return all that are left in their order."""
        return list(iter(self.pop, ""))


def test_a_flood_lets_others_have_their_turns():
    """A pod behind a hundred pods of another namespace is tried second. Each namespace's own pods
    keep their order.
    """
    line = Line()
    for number in range(100):
        line.add(f"flood/{number}")
    line.add("red/0")
    line.add("red/1")
    line.add("blue/0")
    assert ["flood/0", "red/0", "blue/0", "flood/1", "red/1", "flood/2"] == line.rest()[:6]
    assert [] == line.rest()


def test_a_more_important_pod_needs_no_turn():
    """A pod of higher priority is tried first, whatever its namespace."""
    line = Line()
    line.add("a/0")
    line.add("b/0")
    line.add("b/9", priority=9)
    line.add("b/8", priority=9)
    assert ["b/9", "b/8", "a/0", "b/0"] == line.rest()


def test_a_served_namespace_waits_for_the_next_turn():
    """A tenant that adds a pod whenever its last one was taken does not overtake the others."""
    line = Line()
    for number in range(3):
        line.add(f"a/{number}")
    taken = [line.pop()]
    for number in range(3):
        line.add(f"b/{number}")
        taken += [line.pop(), line.pop()]
    assert ["a/0", "a/1", "b/0", "a/2", "b/1", "b/2", ""] == taken


def test_pods_that_went_elsewhere_take_no_turn():
    """An entry of a pod that left the queue is skipped, and a pod that is added again
    counts once.
    """
    line = Line()
    gone = [line.add(f"a/{number}") for number in range(3)]
    line.add("b/0")
    line.add("b/1")
    for queued in gone[:2]:
        queued.ticket = -1
    assert ["a/2", "b/0", "b/1"] == line.rest()
    assert [] == list(line.queue)


def test_a_profile_that_waits_is_passed_over():
    """While a profile waits, pods of other profiles are tried, also those of lower priority;
    afterwards the profiles take turns.
    """
    line = Line()
    line.add("a/0", priority=5, profile="slow")
    line.add("a/1", priority=5, profile="slow")
    line.add("a/2", priority=5)
    line.add("a/3")
    blocked = frozenset({"slow"})
    assert "a/2" == line.pop(blocked)
    assert "a/3" == line.pop(blocked)
    assert "" == line.pop(blocked)
    assert ["a/0", "a/1"] == line.rest()


def test_no_namespace_waits_longer_than_one_turn_of_the_others():
    """Under random arrivals, no other namespace has two turns between two turns of a waiting
    namespace.
    """
    random = Random(1)
    line, waiting = Line(), dict[str, int]()
    since: dict[str, dict[str, int]] = {}
    for number in range(3000):
        if random.random() < 0.55 or not sum(waiting.values()):
            owner = random.choice("abcdefgh")
            line.add(f"{owner}/{number}")
            if not waiting.get(owner):
                since[owner] = {}
            waiting[owner] = waiting.get(owner, 0) + 1
        else:
            owner = line.pop().partition("/")[0]
            waiting[owner] -= 1
            since[owner] = {}
            for other, had in since.items():
                if other != owner and waiting.get(other):
                    had[owner] = had.get(owner, 0) + 1
                    assert had[owner] == 1, (other, had)
    assert sum(waiting.values()) == len(line.rest())


def test_the_engine_takes_the_order_from_the_configuration():
    """With the plugin in place of PrioritySort a flood of another namespace is tried by turns."""
    loaded = load(CONFIG, file="config.yaml", registry=registry())
    engine = Engine(loaded.profiles, registry())
    assert isinstance(engine.queues._active, TurnsActiveQueue)
