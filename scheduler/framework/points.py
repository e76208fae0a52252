"""The extension points as typed protocols, one for each method that the framework may call.

A plugin defines the methods it serves; `Plugin` declares their types, so that mypy reports a wrong
one. A plugin that also names the protocols as bases (`class Rack(PreFilter[Wish], Filter[Wish],
Plugin[NoArgs])`) has its state checked from point to point. The registry checks classes against the
same types at run time (`framework.running.signatures`), for authors without a type checker.
Arguments are positional, so a plugin may choose their names.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from scheduler.base.arrays import BoolColumn, IntColumn, Rows
from scheduler.framework.calls import ApiCall, BindStep, CallResult
from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.postfilter import FitFailure, PostFiltered
from scheduler.framework.status import Narrow, Rejected, Status
from scheduler.framework.together import (
    AreaPaths,
    AssignedMember,
    MemberConflict,
    MemberDemand,
    RowCapacity,
)
from scheduler.objects.pod import Pod
from scheduler.state.change import Change
from scheduler.state.podindex import Placed

State = TypeVar("State")
State_co = TypeVar("State_co", covariant=True)
State_contra = TypeVar("State_contra", contravariant=True)

# Returned by `pre_bind` and `bind`: a generator that yields calls and receives their answers.
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
    """Gates pods before the queue."""

    def pre_enqueue(self, pod: Pod, /) -> Status | None:
        """Return why the pod may not enter the queue, or None."""


class QueueSort(Protocol):
    """Orders the queue; one per profile."""

    def less(self, first: Queued, second: Queued, /) -> bool:
        """Return whether `first` is scheduled before `second`; False for equals."""


class Hint(Protocol):
    """Decides whether a change may help a pod that the plugin rejected."""

    def hint(self, change: Change, pod: Pod, /) -> bool:
        """Return whether to retry the pod."""


class PreFilter(Protocol[State_co]):
    """Computes the state that `filter` needs, once per attempt."""

    def pre_filter(self, cycle: Cycle, nodes: Nodes, /) -> Status | Narrow | State_co:
        """Return the state for later points, a status that rejects or skips, or `Narrow`."""


class Filter(Protocol[State_contra]):
    """Rejects nodes; the state is passed if the plugin has a `pre_filter`."""

    def filter(self, cycle: Cycle, nodes: Nodes, state: State_contra, /) -> Rejected | None:
        """Return the rejected rows and the reasons, as columns of `nodes.size`; None for no row."""


class PostFilter(Protocol):
    """Makes a pod schedulable when no node fits, usually by preemption."""

    def post_filter(self, cycle: Cycle, nodes: Nodes, failure: FitFailure, /) -> PostFiltered:
        """Return a nomination with its victims, or the reason for none."""


class PreScore(Protocol[State_contra, State_co]):
    """Computes the state that `score` needs; receives the plugin's `pre_filter` state, if any."""

    def pre_score(
        self, cycle: Cycle, nodes: Nodes, state: State_contra, /
    ) -> Status | State_co | None:
        """Return another state for `score`, a status that skips or fails, or None."""


class Score(Protocol[State_contra]):
    """Scores nodes; a state is passed if the plugin has `pre_filter` or `pre_score`."""

    def score(self, cycle: Cycle, nodes: Nodes, state: State_contra, /) -> IntColumn:
        """Return an int64 column of `nodes.size`; values of infeasible rows are ignored."""


class Reserve(Protocol[State_contra]):
    """Reserves the pod's resources; the state is passed if the plugin has a `pre_filter`."""

    def reserve(self, cycle: Cycle, node: str, state: State_contra, /) -> Status | None:
        """Reserve on the node called `node`; a rejecting status ends the attempt."""

    def unreserve(self, cycle: Cycle, node: str, state: State_contra, /) -> None:
        """Undo the reservation, or do nothing if there is none; must not fail."""


class Permit(Protocol):
    """Delays or rejects a pod before it is bound."""

    def permit(self, cycle: Cycle, node: str, /) -> Status | None:
        """Return None, a rejecting status, or `wait(seconds)`."""


class PreBind(Protocol[State_contra]):
    """Prepares the binding; the state is passed if there is a `pre_filter`."""

    def pre_bind(self, cycle: Cycle, node: str, state: State_contra, /) -> Steps:
        """Yield calls, receive their answers, return None or a status."""


class Bind(Protocol):
    """Binds a pod."""

    def bind(self, cycle: Cycle, node: str, /) -> Steps:
        """Yield calls, receive their answers.

        Status `SKIP` passes the pod to the next bind plugin.
        """


class PostBind(Protocol):
    """Observes bound pods."""

    def post_bind(self, cycle: Cycle, node: str, /) -> None:
        """Record the binding."""


# Optional capabilities.


class FollowsPods(Protocol[State_contra]):
    """A filter that is not local and updates its state for hypothetical pods.

    Both methods change a copy of the state; `row` is a row of the table. Without them `pre_filter`
    runs again on each changed view.
    """

    def add_pod(self, state: State_contra, placed: Placed, row: int, /) -> None:
        """Count a pod that is added to a row."""

    def remove_pod(self, state: State_contra, placed: Placed, row: int, /) -> None:
        """Stop counting a pod on a row."""


class PassesOver(Protocol[State_contra]):
    """A filter that follows pods and identifies irrelevant ones.

    Its state holds no row-indexed column.
    """

    def concerns(self, state: State_contra, placed: Placed, /) -> bool:
        """Return whether a placed pod is relevant to the pod of `state`."""


class KeepsApart(Protocol):
    """A filter with rules about other pods that states which pods these rules connect."""

    def is_affected(self, pod: Pod, other: Pod, /) -> bool:
        """Return whether `other`, once it is placed, may close nodes to `pod`."""


class ScoreCells(Protocol[State_contra]):
    """A score with a key that also returns integers for single rows.

    Only for the hottest rules: for a few rows a scalar rule is several times faster than columns of
    a few rows. `check_plugin` compares the two.
    """

    def score_cells(
        self, cycle: Cycle, nodes: Nodes, state: State_contra, /
    ) -> Callable[[int], int]:
        """Return a function from a row to its raw score; it reads the current arrays of `nodes`."""


class SortKey(Protocol):
    """A queue sort with sort keys, which is faster than pairwise comparison."""

    def sort_key(self, queued: Queued, /) -> Any:
        """Return a sort key with the order of `less`."""


class KeepsGroups(Protocol):
    """A queue sort that keeps groups of pods together; the queue reports active pods to it."""

    def resorted_by(self, change: Change, /) -> Callable[[Pod], bool] | None:
        """Return a predicate for pods whose position a change may alter; None for no pod."""

    def enter(self, queued: Queued, /) -> tuple[str, Any, Any]:
        """Add a pod that became active; return its group, and the keys of group and pod."""

    def leave(self, queued: Queued, /) -> None:
        """Remove a pod that is no longer active."""


class AssignsTogether(Protocol[State_contra]):
    """Chooses something for each pod (devices), and can choose for several pods of a group at
    once.
    """

    def row_capacity(
        self, cycle: Cycle, nodes: Nodes, demand: MemberDemand, state: State_contra, /
    ) -> RowCapacity:
        """Return how many pods like this group member fit on each row."""

    def assign_together(self, assigned: Sequence[AssignedMember], /) -> MemberConflict | None:
        """Choose for all these pods on their nodes, or return a subset that conflicts.

        The choice is stored in their states for `reserve`; nothing is reserved yet.
        """

    def release_allocations(self, members: Sequence[Pod], /) -> tuple[ApiCall, ...]:
        """Return calls that release allocations of an earlier attempt at a group that now fits
        nowhere.

        `members` are all of its waiting pods.
        """


class Unbounded(Protocol):
    """A filter that compares amounts with allocatable amounts, and reports rows without a limit."""

    def unbounded(self, nodes: Nodes, resources: Iterable[str], /) -> Mapping[str, BoolColumn]:
        """Return by resource the rows whose allocatable amount does not limit their pods.

        Resources that every row limits are left out.
        """


class ReportsPaths(Protocol):
    """Reports the cost of network traffic between pods."""

    def network_paths(self, pod: Pod, rows: Rows, /) -> AreaPaths | None:
        """Return the network paths between these rows for the pods of an application, None if
        unknown.

        Links have capacity for the traffic of all its pods, running ones included.
        """


class Explains(Protocol):
    """Adds figures to `explain`."""

    def figures(self, cycle: Cycle, node: str, /) -> tuple[str, ...]:
        """Return figures about a node as texts."""
