"""Groups of pods that are planned together: the interface between the engine and the group plugin.

A plugin that serves `plan_group` also has `group_of(pod)`, which returns the key of a pod's group,
and `group_wanted(key, pods)`, which returns the members to plan. The engine takes them all out of
the queue at once and drives

    plan_group(context) -> Generator[SolverCall, CallResult, Outcome]

The generator may call the solver in another process. Other pods are scheduled meanwhile, so facts
read from `context` before a call are stale after it. The outcome is carried out for all members or
for none. `group_reported(key, stage, now)` receives the group's progress; it may return requests
that write the status, and events for the group's object.
"""

from collections.abc import (
    Callable,
    Collection,
    Generator,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

import msgspec

from scheduler.base.arrays import BoolColumn, IntColumn, IntMatrix, Rows
from scheduler.framework.calls import ApiCall, CallResult, SolverCall
from scheduler.framework.hypothetical.disruption import Disruption, DisruptionUnits
from scheduler.framework.hypothetical.elsewhere import Elsewhere
from scheduler.framework.nodes import Nodes
from scheduler.framework.status import Rejection, Status
from scheduler.framework.together import AreaPaths, InventoryOf
from scheduler.objects.pod import Pod
from scheduler.state.change import Change
from scheduler.state.podindex import Placed

# Of the keys of CompositePodGroups.
COMPOSITE_PREFIX = "compositepodgroup:"


def title(key: str) -> str:
    """Return the display name of a group: its key without the prefix before a colon, if any.

    The prefix distinguishes equal names in two kinds of objects.
    """
    return key.rpartition(":")[2]


class GroupPlan(msgspec.Struct, frozen=True):
    """The nodes of members, by uid; with `victims`, the nominated nodes until those are deleted.

    A plan without victims has been accepted by `PlanningContext.hold`. Members that the plan does
    not name stay pending with the reason in `message`. They are retried when the others are bound,
    unless `is_proven` states that no more members fit now and none is needed. `hold_s` limits how
    long the members that are bound last may take to pass permit; 0 is the default limit. `expected`
    has by uid the nodes where victims are expected to fit, `disruption` what the victims count for
    in metrics.
    """

    nodes: Mapping[str, str]
    victims: tuple[Placed, ...] = ()
    message: str = ""
    hold_s: float = 0.0
    is_proven: bool = True
    expected: Mapping[str, str] = {}
    disruption: Disruption = Disruption()


class GroupRelease(msgspec.Struct, frozen=True):
    """The group was never complete and cannot become complete: its bound members are evicted
    too.
    """

    bound: tuple[Placed, ...]
    message: str


class GroupEvent(msgspec.Struct, frozen=True):
    """An event about the object that describes a group; `type` is Normal or Warning."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str
    reporter: str
    type: str
    reason: str
    action: str
    note: str


class UndecidedStatus(Status, frozen=True):
    """A rejection without a proof: the solver did not answer, or did not decide whether the group
    fits.

    Evict nothing. Keep the group's nominations unless `gives_up` is set, which requires that no
    member is bound or pending. The group is retried at `retry_at` (seconds since the epoch) at the
    latest; 0 sets no time.
    """

    retry_at: float = 0.0
    gives_up: bool = False


class OnHoldStatus(Status, frozen=True):
    """An error that only a change can resolve: the group is retried on a change, never by time."""


class GroupLook(msgspec.Struct, frozen=True):
    """Compare the group's status with its pods again at this time."""

    at: float


GroupWrite: TypeAlias = ApiCall | GroupEvent | GroupLook
Outcome: TypeAlias = GroupPlan | GroupRelease | Status


class GroupStage(StrEnum):
    """The progress of a group as reported to its plugin."""

    CHANGED = "Changed"
    ON_HOLD = "Held"
    STARTED = "Started"
    REFUSED = "Refused"
    ASSIGNED = "Assigned"
    PERMITTED = "Permitted"
    BOUND = "Bound"
    RELEASED = "Released"
    DISSOLVED = "Dissolved"
    PREEMPTING = "Preempting"


class Fits(msgspec.Struct, frozen=True):
    """The nodes that fit one member alone, and the number of members that each row has capacity
    for.

    `slots` counts all resources that members request and their number of pods, not host ports; it
    is 0 where `rows` is not set. `evictable` are rejected rows that evictions may make feasible.
    Members with an equal `kind` are equivalent for the plugins that choose for several pods at once
    (`points.AssignsTogether`). `shared_domain` is a number by row that must be equal for all
    members; None is no restriction. `inventories` state what rows have, `costs` what preferences
    lack (`RowCapacity`).
    """

    rows: BoolColumn
    slots: IntColumn
    evictable: BoolColumn
    rejections: tuple[Rejection, ...]
    message: str
    kind: Hashable = ()
    shared_domain: IntColumn | None = None
    inventories: tuple[InventoryOf, ...] = ()
    costs: IntMatrix | None = None


class AssignmentRejection(msgspec.Struct, frozen=True):
    """The reason why an assignment is infeasible; `most` is each row's maximum number of members.

    `conflict` are members that do not fit on one node together, on any of `rows`; it makes no
    statement about other members or about subsets.
    """

    most: IntColumn
    pod: Pod
    node: str
    reason: str
    conflict: tuple[Pod, ...] = ()
    rows: BoolColumn | None = None


class PlanningContext(Protocol):
    """The input of planning: the members of a group, and the current nodes."""

    @property
    def members(self) -> Sequence[Pod]:
        """Return the members to place, in the order of `group_wanted`."""

    @property
    def now(self) -> float:
        """Return the time in seconds since the epoch."""

    @property
    def priority(self) -> int:
        """Return the priority with which the members are scheduled."""

    @property
    def nodes(self) -> Nodes:
        """Return the live nodes."""

    def keep_nominations(self, *, all_of_them: bool) -> bool:
        """Respect or ignore the nominations of less important pods; return whether there are
        any.
        """

    def free(self, resources: Iterable[str]) -> dict[str, IntColumn]:
        """Return each row's free amounts of these resources, less the nominations of other pods."""

    def network_paths(self, rows: Rows) -> AreaPaths | None:
        """Return the network paths between members on these rows; None where they are not known."""

    def fits(self, relaxed: Sequence[Pod] | None = None) -> Fits:
        """Run the filters of the profile for any of the members; raises PluginError.

        `relaxed` replaces the members: the same pods without the rules that the caller checks.
        """

    def fits_each(
        self, relaxed: Sequence[Pod] | None = None
    ) -> Sequence[tuple[Sequence[Pod], Fits]]:
        """Run the filters for each distinct spec; return each with the pods of that spec."""

    def hold(self, nodes: Mapping[str, str]) -> AssignmentRejection | None:
        """Reserve the members' nodes (by uid), or return the reason and leave everything unchanged.

        Each member's filters run with the other members that `nodes` names in place.
        """

    def seeks_victims(self) -> None:
        """Record that a search for victims begins: its duration is measured."""

    def would_hold(
        self, nodes: Mapping[str, str], victims: Sequence[Placed]
    ) -> AssignmentRejection | None:
        """Return why the members would not fit on their nodes after the eviction of `victims`.

        None if they would fit.
        """

    def elsewhere(self) -> Elsewhere:
        """Return which pods would fit a node other than their own, beside all pods that run."""


class MemberOrder(msgspec.Struct, frozen=True, rename="camel"):
    """Members by their index with their nodes, and per level how many consecutive ones are in two
    units.

    `bound` is the proven least number of such crossings, level by level from the top.
    """

    members: tuple[tuple[str, str], ...]
    crossings: dict[str, int]
    bound: dict[str, int]

    @property
    def is_proven(self) -> bool:
        """Return whether no order has fewer crossings."""
        return self.crossings == self.bound


class GroupReport(msgspec.Struct, frozen=True, rename="camel"):
    """A group in the results of `simulate`; `placement` is a tree of names with pods as leaves.

    `objective` has the minimised values in order. `bound` has the proven lower bound of each (None:
    no proof; empty for members placed in several steps). `terms` names each: a level and its
    measure ("rack units"), those of a role ("node of workers squares"), or "cost". `conflict` names
    rules that exclude one another. `source` is the kind of object that describes the group. Between
    `minimum` and `maximum` members may be placed; None is no limit. `message` states why the group
    is pending, `would_fit` the largest smaller group that fits now (0: unknown). `orders` has the
    members by index, one order for each subgroup with indexes. `planned` of the placed members are
    pending in the given cluster; `finished` members have ended and count towards `minimum`.
    """

    namespace: str
    name: str
    status: str
    size: int
    placement: dict[str, Any]
    optimal: bool = False
    objective: tuple[int, ...] = ()
    bound: tuple[int | None, ...] = ()
    solver_seconds: float = 0.0
    victims: tuple[dict[str, str], ...] = ()
    conflict: tuple[str, ...] = ()
    source: str = ""
    minimum: int = 0
    maximum: int | None = None
    message: str = ""
    terms: tuple[str, ...] = ()
    would_fit: int = 0
    orders: tuple[MemberOrder, ...] | msgspec.UnsetType = msgspec.UNSET
    planned: int = 0
    finished: int = 0

    def leaves(self) -> Iterator[tuple[str, str]]:
        """Yield node and pod of each placed member."""
        return _leaves(self.placement.get("root") or {})


def _leaves(units: Mapping[str, Any], node: str = "") -> Iterator[tuple[str, str]]:
    """Yield the innermost names with the name around each."""
    for name, below in units.items():
        if below:
            yield from _leaves(below, name)
        else:
            yield node, name


class GroupPlanner(Protocol):
    """The methods of a plugin that plans groups."""

    name: str

    def group_of(self, pod: Pod) -> str:
        """Return the key of the pod's group, or '' for a pod without a group."""

    def names_group(self, pod: Pod) -> bool:
        """Return whether the pod itself names a group, known or not. All planners return the
        same.
        """

    def regrouped_by(self, change: Change) -> Callable[[Pod], bool] | None:
        """Return a predicate for pods whose group may have changed with `change`; None for no pod.

        All planners return the same.
        """

    def group_priority(self, key: str, pods: Sequence[Pod]) -> int:
        """Return the priority with which these waiting members are scheduled, and store it."""

    def group_may_evict(self, key: str, pods: Sequence[Pod]) -> bool:
        """Return whether the group's objects allow evictions for these waiting members."""

    def group_wanted(self, key: str, pods: Sequence[Pod]) -> tuple[str, ...] | Status:
        """Return the uids of the members to plan now, or the status with which the group waits."""

    def group_lacks(self, key: str) -> bool | None:
        """Return whether a rejected group exceeds the total amounts of all nodes; None where its
        rejection is not about amounts.
        """

    def groups_partially_bound(self) -> Sequence[str]:
        """Return the groups that are partially bound and, by their objects, were never complete."""

    def group_short(
        self, key: str, uid: str, unbound: Collection[str], displaced: Iterable[str]
    ) -> str:
        """Return why binding must not start because fewer members have a node than needed, or ''.

        Called before each bind, with `uid` as the member to bind. The members `unbound` (by uid)
        are not known to be bound; the `displaced` lose or have lost their nodes. Returns '' if
        other members are already on nodes. In a group with subgroups, each subgroup of `uid` starts
        on its own.
        """

    def plan_group(
        self, key: str, context: PlanningContext
    ) -> Generator[SolverCall, CallResult, Outcome]:
        """Plan the nodes of all members."""

    def disruption_units(self, since: int) -> DisruptionUnits:
        """Return the groups whose members, mode or priority may have changed after the mark
        `since`.

        A mark is a number above 0; 0 returns all groups with members on nodes.
        """

    def group_changed(self) -> set[str]:
        """Return the groups whose members or description changed since the previous call."""

    def group_reported(self, key: str, stage: GroupStage, now: float) -> Sequence[GroupWrite]:
        """Receive the group's progress.

        Return the requests that write its status, and its events.
        """

    def group_evicted(
        self, victims: Sequence[Placed], whom: str, group: str, reporter: str
    ) -> Sequence[GroupEvent]:
        """Receive victims before their eviction; return the events for the victims' groups.

        The preemptor `whom` is "pod NAMESPACE/NAME" or "group NAME". `group` is the name alone, ''
        for a pod without a group. `reporter` is the preemptor's profile.
        """

    def group_spared(self, victims: Sequence[Placed]) -> None:
        """Process victims whose evictions failed: those that still run may stay."""

    def group_left(self, key: str) -> Sequence[Placed]:
        """Return the running members of a group whose eviction did not complete."""

    def has_group(self, key: str) -> bool:
        """Return whether an object or a pod of the group exists."""

    def group_is_missing(self, key: str) -> bool:
        """Return whether nothing describes the group yet: its pods wait for the object."""

    def group_presence(self, key: str) -> tuple[int, int]:
        """Return how many members are on nodes or finished, and the minimum (0: not described)."""

    def group_statuses(self) -> Mapping[str, int]:
        """Return the number of groups by status; called at every scrape of the metrics."""

    def group_reports(self) -> Sequence[GroupReport]:
        """Return the reports of all groups that were planned or are blocked."""
