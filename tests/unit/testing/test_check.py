"""`check_plugin` finds a plugin that breaks an invariant, for each invariant."""

from typing import Any, ClassVar

import numpy as np
import pytest

from scheduler.framework.args import Args, NoArgs
from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import Plugin
from scheduler.framework.status import Reason, Rejected, Status, reject, unresolvable
from scheduler.objects.pod import Pod
from scheduler.state.change import Change
from scheduler.state.cluster import Cluster
from scheduler.state.counts.rowtracker import RowTracker
from scheduler.state.podindex import Placed
from scheduler.testing import BrokenLawsError, check_plugin, node
from scheduler.testing.check import INVARIANTS


class NegativeArgs(Args):
    """Arguments whose defaults do not hold."""

    most: int = -1

    def validate(self):
        if self.most < 0:
            yield "most", "must not be negative"


class RefusesItsDefaults(Plugin[NegativeArgs]):
    """Cannot be configured without arguments."""

    def score(self, cycle: Cycle, nodes: Nodes):
        return nodes.constant(0)


class ServesNothing(Plugin[NoArgs]):
    """A plugin without an extension point."""


class ScoresTooHigh(Plugin[NoArgs]):
    """Does not normalise."""

    def score(self, cycle: Cycle, nodes: Nodes):
        return nodes.allocatable("memory")


class ReturnsAList(Plugin[NoArgs]):
    """A plugin whose scores are a list instead of a column."""

    def score(self, cycle: Cycle, nodes: Nodes):
        return [0] * nodes.size


class RejectsByNumbers(Plugin[NoArgs]):
    """The mask is a column of numbers."""

    reads = ("node",)

    def filter(self, cycle: Cycle, nodes: Nodes):
        numbers: Any = nodes.allocatable("cpu") * 0
        return reject(numbers, "node(s) were counted")


class RejectsWithoutReason(Plugin[NoArgs]):
    """Some rejected rows have no text."""

    reads = ("node",)

    def filter(self, cycle: Cycle, nodes: Nodes):
        none = np.zeros(nodes.size, dtype=np.bool_)
        return Rejected(nodes.exists.copy(), none, (Reason(none, "node(s) were nothing"),))


class Writes(Plugin[NoArgs]):
    """Works in the column it was given."""

    def score(self, cycle: Cycle, nodes: Nodes):
        column = nodes.requested("cpu")
        column += 1
        return column * 0


class Remembers(Plugin[NoArgs]):
    """Returns a result that depends on the number of its calls."""

    asked = 0

    def score(self, cycle: Cycle, nodes: Nodes):
        type(self).asked += 1
        return nodes.constant(self.asked % 7)


class CountsRows(Plugin[NoArgs]):
    """A plugin whose scores depend on the row."""

    def score(self, cycle: Cycle, nodes: Nodes):
        return np.arange(nodes.size, dtype=np.int64)


class LooksAround(Plugin[NoArgs]):
    """Declares itself local but compares with the best node."""

    reads = ("node.allocatable",)
    local = True

    def filter(self, cycle: Cycle, nodes: Nodes):
        cpu = nodes.allocatable("cpu")
        return reject(cpu < cpu.max(), "node(s) were not the largest")


class KeepsRows(Plugin[NoArgs]):
    """Declares itself local but keeps a full column in its state."""

    reads = ("node.taints",)
    local = True

    def pre_filter(self, cycle: Cycle, nodes: Nodes):
        return nodes.unschedulable.copy()

    def filter(self, cycle: Cycle, nodes: Nodes, cordoned: Any):
        return reject(cordoned & nodes.exists, "node(s) were cordoned")


class KeepsReservations(Plugin[NoArgs]):
    """Never gives a reservation back."""

    reads = ("pod.deleted",)

    def __init__(self, args: NoArgs, handle: Any) -> None:
        super().__init__(args, handle)
        self.reserved: set[str] = set()

    def filter(self, cycle: Cycle, nodes: Nodes):
        return reject(nodes.rows_named(self.reserved), "node(s) were reserved")

    def reserve(self, cycle: Cycle, node: str) -> None:
        self.reserved.add(node)

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """Do nothing."""


class Forgetful:
    """A tracker that counts arrivals but not departures."""

    kinds: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.count = 0

    def rebuild(self, cluster: Cluster) -> None:
        self.count = len(cluster.pods)

    def apply(self, change: Change) -> None:
        self.count += change.kind == "Pod" and change.verb == "add"

    def columns(self):
        return {"count": np.array([self.count])}


class TracksHalf(Plugin[NoArgs]):
    """Relies on a tracker that misses changes."""

    tracker: ClassVar[type] = Forgetful

    def __init__(self, args: NoArgs, handle: Any) -> None:
        super().__init__(args, handle)
        handle.tracker(self.tracker)

    def score(self, cycle: Cycle, nodes: Nodes):
        return nodes.constant(0)


class Choosy(RowTracker):
    """A tracker that ignores changes of pods that it counts."""

    def clear(self) -> None:
        self.count = 0

    def hold(self, placed: Placed, row: int) -> None:
        self.count += 1

    def release(self, placed: Placed, row: int) -> None:
        self.count -= 1

    def passes_over(self, placed: Placed) -> bool:
        return True

    def columns(self):
        return {"count": np.array([self.count])}


class TracksTooFew(TracksHalf):
    """Relies on a tracker that passes over the wrong pods."""

    tracker = Choosy


class SortsBothWays(Plugin[NoArgs]):
    """Sorts every pod first."""

    def less(self, first: Any, second: Any) -> bool:
        return first is not second


class MistakesScores(Plugin[NoArgs]):
    """The plugin's cells differ from its columns."""

    reads = ("node.allocatable",)
    local = True

    def key(self, pod: Pod) -> int:
        return 0

    def score(self, cycle: Cycle, nodes: Nodes):
        return nodes.allocatable("cpu") % 7

    def score_cells(self, cycle: Cycle, nodes: Nodes):
        return lambda _row: 3


class MistakesPods(Plugin[NoArgs]):
    """The plugin's key is equal for pods with different scores."""

    def key(self, pod: Pod) -> int:
        return 0

    def score(self, cycle: Cycle, nodes: Nodes):
        return nodes.constant(len(cycle.pod.metadata.name) % 7)


class ForgetsTheKeyless(Plugin[NoArgs]):
    """Has no key for pods that it rejects nodes for."""

    reads = ("node.labels",)

    def key(self, pod: Pod) -> None:
        return None

    def filter(self, cycle: Cycle, nodes: Nodes):
        return reject(nodes.label_ids("topology.kubernetes.io/zone") < 0, "node(s) had no zone")


class KeepsTooLong(Plugin[NoArgs]):
    """Reads requests of pods, but declares labels alone."""

    reads = ("node.labels",)
    local = True

    def key(self, pod: Pod) -> int:
        return 0

    def score(self, cycle: Cycle, nodes: Nodes):
        return nodes.requested("pods")


class LooksAcrossRows(Plugin[NoArgs]):
    """Declares rows independent, and compares them."""

    reads = ("node.allocatable", "pod.deleted")
    local = True

    def key(self, pod: Pod) -> int:
        return 0

    def score(self, cycle: Cycle, nodes: Nodes):
        pods = nodes.requested("pods")
        return pods.max(initial=0) - pods


class SleepsOn(Plugin[NoArgs]):
    """Rejects by a label but is woken by taints."""

    reads = ("node.taints",)

    def filter(self, cycle: Cycle, nodes: Nodes):
        return reject(nodes.label_ids("topology.kubernetes.io/zone") < 0, "node(s) had no zone")


class HintsWrong(SleepsOn):
    """Reads the right fact, but its hint is always negative."""

    reads = ("node.labels",)

    def hint(self, change: Change, pod: Pod) -> bool:
        return False


class HintsByName(Plugin[NoArgs]):
    """Has one key for all pods, but its hint reads a pod's name."""

    reads = ("pod.deleted",)

    def key(self, pod: Pod) -> str:
        return ""

    def filter(self, cycle: Cycle, nodes: Nodes) -> None:
        return None

    def hint(self, change: Change, pod: Pod) -> bool:
        return pod.metadata.name < "m"


class NeverWakes(Plugin[NoArgs]):
    """Rejects for ever and reads nothing."""

    def pre_filter(self, cycle: Cycle, nodes: Nodes) -> Status:
        return unresolvable("not today")


@pytest.mark.parametrize(
    ("plugin", "invariant"),
    [
        (RefusesItsDefaults, "constructs"),
        (ServesNothing, "constructs"),
        (ScoresTooHigh, "runs"),
        (ReturnsAList, "runs"),
        (RejectsByNumbers, "runs"),
        (RejectsWithoutReason, "returns_columns"),
        (Writes, "writes_nothing"),
        (Remembers, "repeats_itself"),
        (CountsRows, "ignores_row_order"),
        (LooksAround, "is_local"),
        (KeepsRows, "is_local"),
        (MistakesScores, "keeps_its_key"),
        (MistakesPods, "keeps_its_key"),
        (ForgetsTheKeyless, "keeps_its_key"),
        (KeepsTooLong, "keeps_its_key"),
        (LooksAcrossRows, "keeps_its_key"),
        (HintsByName, "keeps_its_key"),
        (KeepsReservations, "gives_back"),
        (TracksHalf, "tracks"),
        (TracksTooFew, "tracks"),
        (SortsBothWays, "sorts_strictly"),
        (SleepsOn, "wakes"),
        (HintsWrong, "wakes"),
        (NeverWakes, "wakes"),
    ],
)
def test_a_broken_plugin_is_found(plugin, invariant):
    """The invariant that it violates is among the reported ones."""
    with pytest.raises(BrokenLawsError, match=plugin.__name__) as error:
        check_plugin(plugin)

    assert invariant in error.value.broken


def test_each_invariant_has_a_plugin_that_breaks_it():
    """No invariant exists that no plugin violates."""
    mark = test_a_broken_plugin_is_found.pytestmark[0]
    tried = {invariant for _, invariant in mark.args[1]}

    assert {invariant.__name__ for invariant in INVARIANTS} == tried


def test_samples_of_one_s_own_reach_further():
    """A plugin that reads its own label needs nodes that carry it."""

    class ByRack(Plugin[NoArgs]):
        def score(self, cycle: Cycle, nodes: Nodes):
            return nodes.label_int("rack")

    check_plugin(ByRack)
    with pytest.raises(BrokenLawsError, match="invalid score 101"):
        check_plugin(ByRack, nodes=[node("n", labels={"rack": "101"})])
