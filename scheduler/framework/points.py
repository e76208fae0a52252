"""The extension points as typed protocols, one for each method that the framework may call.

A plugin defines the methods it serves; `Plugin` declares their shapes, so that mypy reports a wrong
one. A plugin that also names the protocols as bases (`class Rack(PreFilter[Wish], Filter[Wish],
Plugin[NoArgs])`) has its state checked from point to point. The registry holds classes to the same
shapes at run time (`framework.signatures`), for authors without a type checker. Arguments are
positional, so a plugin may name them as it likes.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from scheduler.base.arrays import BoolColumn, IntColumn, Rows
from scheduler.framework.calls import ApiCall, BindStep, CallResult
from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.status import Narrow, Rejected, Status
from scheduler.framework.together import MemberConflict, MemberDemand, RowRoom, SeatedMember, Ways
from scheduler.objects.pod import Pod
from scheduler.state.change import Change
from scheduler.state.podindex import Placed

if TYPE_CHECKING:
    from scheduler.framework.postfilter import FitFailure, PostFiltered

State = TypeVar("State")
State_co = TypeVar("State_co", covariant=True)
State_contra = TypeVar("State_contra", contravariant=True)

# What `pre_bind` and `bind` return: a generator that yields calls and receives their answers.
Steps: TypeAlias = Generator[BindStep, CallResult, Status | None]


class Queued(Protocol):
    """A pod in the queue; `queued_at` is when it entered, in seconds since the epoch."""

    @property
    def pod(self) -> Pod: ...
    @property
    def priority(self) -> int: ...
    @property
    def queued_at(self) -> float: ...


class PreEnqueue(Protocol):
    """Keeps pods out of the queue."""

    def pre_enqueue(self, pod: Pod, /) -> Status | None:
        """Return why the pod may not enter the queue, or None."""


class QueueSort(Protocol):
    """Orders the queue; one per profile."""

    def less(self, first: Queued, second: Queued, /) -> bool:
        """Whether `first` is tried before `second`; False for equals."""


class Hint(Protocol):
    """Looks closer at changes that may help a pod that the plugin has rejected."""

    def hint(self, change: Change, pod: Pod, /) -> bool:
        """Whether the pod should be tried again."""


class PreFilter(Protocol[State_co]):
    """Works out what `filter` needs of a pod, once per attempt."""

    def pre_filter(self, cycle: Cycle, nodes: Nodes, /) -> Status | Narrow | State_co:
        """Return the state for later points, a status that rejects or skips, or `Narrow`."""


class Filter(Protocol[State_contra]):
    """Says which nodes are out; the state is passed if the plugin has a `pre_filter`."""

    def filter(self, cycle: Cycle, nodes: Nodes, state: State_contra, /) -> Rejected | None:
        """Return the rows that are out and why, as columns of `nodes.size`; None for no row."""


class PostFilter(Protocol):
    """Looks for a way out when no node fits."""

    def post_filter(self, cycle: Cycle, nodes: Nodes, failure: "FitFailure", /) -> "PostFiltered":
        """Return a nomination with its victims, or why there is none."""


class PreScore(Protocol[State_contra, State_co]):
    """Works out what `score` needs; the state is passed if the plugin has a `pre_filter`."""

    def pre_score(
        self, cycle: Cycle, nodes: Nodes, state: State_contra, /
    ) -> Status | State_co | None:
        """Return another state for `score`, a status that skips or fails, or None."""


class Score(Protocol[State_contra]):
    """Says how good nodes are; a state is passed if the plugin has `pre_filter` or `pre_score`."""

    def score(self, cycle: Cycle, nodes: Nodes, state: State_contra, /) -> IntColumn:
        """Return an int64 column of `nodes.size`; only feasible rows mean anything."""


class Reserve(Protocol[State_contra]):
    """Books what the pod takes; the state is passed if the plugin has a `pre_filter`."""

    def reserve(self, cycle: Cycle, node: str, state: State_contra, /) -> Status | None:
        """Book on the node called `node`; a rejecting status ends the attempt."""

    def unreserve(self, cycle: Cycle, node: str, state: State_contra, /) -> None:
        """Take the booking back, or do nothing if there is none; must not fail."""


class Permit(Protocol):
    """Lets a pod wait before it is bound."""

    def permit(self, cycle: Cycle, node: str, /) -> Status | None:
        """Return None, a rejecting status, or `wait(seconds)`."""


class PreBind(Protocol[State_contra]):
    """Does what must be done before binding; the state is passed if there is a `pre_filter`."""

    def pre_bind(self, cycle: Cycle, node: str, state: State_contra, /) -> Steps:
        """Yield calls, receive their answers, return None or a status."""


class Bind(Protocol):
    """Binds a pod."""

    def bind(self, cycle: Cycle, node: str, /) -> Steps:
        """Yield calls, receive their answers; a status `SKIP` leaves the pod to the next binder."""


class PostBind(Protocol):
    """Hears that a pod is bound."""

    def post_bind(self, cycle: Cycle, node: str, /) -> None:
        """Take note."""


# Rare abilities.


class FollowsPods(Protocol[State_contra]):
    """A filter that is not local and follows hypothetical pods by itself.

    Both methods change a copy of the state; `row` is a row of the table. Without them `pre_filter` runs
    anew on each changed view.
    """

    def add_pod(self, state: State_contra, placed: Placed, row: int, /) -> None:
        """Count a pod that comes to a row."""

    def remove_pod(self, state: State_contra, placed: Placed, row: int, /) -> None:
        """Stop counting a pod on a row."""


class PassesOver(Protocol[State_contra]):
    """A filter that follows pods, and knows which make no difference.

    Its state holds no column that goes by rows.
    """

    def concerns(self, state: State_contra, placed: Placed, /) -> bool:
        """Whether a placed pod makes a difference to the pod of `state`."""


class ScoreCells(Protocol[State_contra]):
    """A score with a key that also answers for single rows in plain numbers, which are whole.

    Only for the hottest rules: for a few rows a scalar rule is several times quicker than columns of
    a few rows. `check_plugin` holds the two together.
    """

    def score_cells(
        self, cycle: Cycle, nodes: Nodes, state: State_contra, /
    ) -> Callable[[int], int]:
        """Return a function from a row to its raw score; it reads the arrays of `nodes` as they become."""


class SortKey(Protocol):
    """A queue sort whose order is that of keys, which is quicker than comparing pods by two."""

    def sort_key(self, queued: Queued, /) -> Any:
        """Return what orders pods as `less` does."""


class KeepsGroups(Protocol):
    """A queue sort that keeps groups of pods together; the queue tells it who is active."""

    def resorted_by(self, change: Change, /) -> Callable[[Pod], bool] | None:
        """Return which pods stand elsewhere after a change; None for none."""

    def enter(self, queued: Queued, /) -> tuple[str, Any, Any]:
        """Take a pod that became active; return its group, and the keys of group and pod."""

    def leave(self, queued: Queued, /) -> None:
        """Take note that a pod is not active any more."""


class SeatsTogether(Protocol[State_contra]):
    """Chooses something for each pod, and can choose for several pods of a group at once."""

    def row_room(
        self, cycle: Cycle, nodes: Nodes, demand: MemberDemand, state: State_contra, /
    ) -> RowRoom:
        """Return how many pods like this one, a member of a group, fit on each row."""

    def seat_together(self, seated: Sequence[SeatedMember], /) -> MemberConflict | None:
        """Choose for all these pods on their nodes, or return some that cannot be together.

        The choice is kept in their states for `reserve`; nothing is booked.
        """

    def let_go(self, members: Sequence[Pod], /) -> tuple[ApiCall, ...]:
        """Return the calls that give up what an earlier try of a group got that fits nowhere now.

        `members` are all of its pods that wait.
        """


class Unbounded(Protocol):
    """A filter that compares amounts with what nodes offer, and knows where it does not."""

    def unbounded(self, nodes: Nodes, resources: Iterable[str], /) -> Mapping[str, BoolColumn]:
        """Return by resource the rows whose allocatable amount does not limit the pods on them.

        A resource that every row limits is left out.
        """


class KnowsWays(Protocol):
    """Knows what it costs that pods talk to one another."""

    def ways(self, pod: Pod, rows: Rows, /) -> Ways | None:
        """Return the ways between these rows for the pods of an application, None where nothing is known of them.

        Links have room for what all its pods send, those that stand included.
        """


class Explains(Protocol):
    """Has figures of its own to show in `explain`."""

    def figures(self, cycle: Cycle, node: str, /) -> tuple[str, ...]:
        """Return what is known of a node, in words."""
