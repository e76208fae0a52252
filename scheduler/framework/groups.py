"""Groups of pods that are decided together: what a plugin that plans them has to do with.

A plugin that serves `plan_group` also has `group_of(pod)`, which names the group of a pod, and
`group_wanted(key, pods)`, which says whom of the members present it takes. The engine takes them all
out of the queue at once and drives

    plan_group(context) -> Generator[SolverCall, CallResult, Outcome]

which may ask the solver, in another process: other pods go on meanwhile, so what was learnt from
`context` before a call is stale after it. What it returns is carried out for all members or for none.
`group_told(key, stage, now)` hears what became of it and may return requests that write it down, and
events about the group's own object.
"""

from collections.abc import Callable, Collection, Generator, Hashable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

import msgspec

from scheduler.base.arrays import BoolColumn, IntColumn, IntMatrix, Rows
from scheduler.framework.answers import Rejection
from scheduler.framework.calls import ApiCall, CallResult, SolverCall
from scheduler.framework.disruption import DisruptionUnits
from scheduler.framework.nodes import Nodes
from scheduler.framework.status import Status
from scheduler.framework.together import Stocktaking, Ways
from scheduler.objects.pod import Pod
from scheduler.state.change import Change
from scheduler.state.podindex import Placed


def title(key: str) -> str:
    """Return what to call a group in a text: its key without the word before a colon, if any.

    That word sets groups of equal names in two kinds of objects apart.
    """
    return key.rpartition(":")[2]


class GroupPlan(msgspec.Struct, frozen=True):
    """Where members go, by uid; with `victims`, where they will go once those have left.

    A plan without victims is one that `PlanningContext.hold` has accepted. Members that it does not name
    wait on, for the reason in `message`; unless `is_proven` says that more members cannot be placed now,
    they are tried again when the others are bound. `hold_s` is how long those that are bound last may take to get
    past permit, 0 for the usual time.
    """

    nodes: Mapping[str, str]
    victims: tuple[Placed, ...] = ()
    message: str = ""
    hold_s: float = 0.0
    is_proven: bool = True


class GroupRelease(msgspec.Struct, frozen=True):
    """The group has never been whole and cannot become so: its bound members have to go as well."""

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
    """A refusal that leaves open whether the group fits: no answer came, or none was proven.

    Nothing that runs is given up for it, nor room that was promised to the group, but where it `gives_up` that:
    nobody of it stands or is waited for, and others would wait in vain. At `retry_at` (seconds since the epoch) the
    group is tried again, whatever happens meanwhile; 0 says nothing.
    """

    retry_at: float = 0.0
    gives_up: bool = False


class HeldStatus(Status, frozen=True):
    """An error that no time heals: the group is tried again when something changes, and not before."""


class GroupLook(msgspec.Struct, frozen=True):
    """Compare what is written about the group with its pods again at this time."""

    at: float


Told: TypeAlias = ApiCall | GroupEvent | GroupLook
Outcome: TypeAlias = GroupPlan | GroupRelease | Status


class GroupStage(StrEnum):
    """What a plugin is told about its group."""

    CHANGED = "Changed"
    HELD = "Held"
    STARTED = "Started"
    REFUSED = "Refused"
    ASSIGNED = "Assigned"
    PERMITTED = "Permitted"
    BOUND = "Bound"
    RELEASED = "Released"
    DISSOLVED = "Dissolved"
    PREEMPTING = "Preempting"


class Fits(msgspec.Struct, frozen=True):
    """Where one member could go on its own, and how many members each row has room for.

    `slots` counts all resources that members request and their number of pods, not host ports; it is 0
    where `rows` is not set. `evictable` are rows that are refused, but not for good. `kind` is equal for members
    that the plugins which choose for several at once (`points.SeatsTogether`) take for alike; `reach` is a
    number by row that must be the same for all members, None says nothing. `stocks` tell what rows have, `costs`
    what preferences lack (see `RowRoom`).
    """

    rows: BoolColumn
    slots: IntColumn
    evictable: BoolColumn
    rejections: tuple[Rejection, ...]
    message: str
    kind: Hashable = ()
    reach: IntColumn | None = None
    stocks: tuple[Stocktaking, ...] = ()
    costs: IntMatrix | None = None


class Misfit(msgspec.Struct, frozen=True):
    """Why an assignment does not hold: `most` is how many members each row can take at most.

    `conflict` are members that do not fit on one node together, on any of `rows`; nothing is said then of
    others, or of some of them.
    """

    most: IntColumn
    pod: Pod
    node: str
    reason: str
    conflict: tuple[Pod, ...] = ()
    rows: BoolColumn | None = None


class PlanningContext(Protocol):
    """What a group is planned in: its members, and the nodes as they are at this moment."""

    @property
    def members(self) -> Sequence[Pod]:
        """Return the members that are to be placed, in the order that `group_wanted` gave."""

    @property
    def now(self) -> float:
        """Return the time in seconds."""

    @property
    def priority(self) -> int:
        """Return the priority with which the members ask for room."""

    @property
    def nodes(self) -> Nodes:
        """Return the live nodes."""

    def spare(self, *, promised: bool) -> bool:
        """Leave the less important the room that they are promised, or not; return whether there is any."""

    def free(self, resources: Iterable[str]) -> dict[str, IntColumn]:
        """Return what each row has left of these resources, less what it promises to others."""

    def ways(self, rows: Rows) -> Ways | None:
        """Return what it costs that members on some rows talk to one another, None where that is not known."""

    def fits(self, asked: Sequence[Pod] | None = None) -> Fits:
        """Ask the filters of the profile where any of the members could go; raises PluginError.

        `asked` stand for the members: the same pods without rules that the caller sees to itself.
        """

    def fits_each(self, asked: Sequence[Pod] | None = None) -> Sequence[tuple[Sequence[Pod], Fits]]:
        """Ask the same for each of the specs that differ, with the pods of that spec."""

    def hold(self, nodes: Mapping[str, str]) -> Misfit | None:
        """Put members (by uid) on their nodes, or say why not and leave everything as it was.

        All filters are asked with the other members that `nodes` names in place.
        """

    def would_hold(self, nodes: Mapping[str, str], victims: Sequence[Placed]) -> Misfit | None:
        """Say why the members would not fit on their nodes if `victims` were gone; None: they would."""


class GroupReport(msgspec.Struct, frozen=True, rename="camel"):
    """A group in the results of `simulate`; `placement` is a tree of names, pods are its leaves.

    `objective` are the values that were minimised, in order, `bound` the proven lower limit of each (None:
    nothing is proven; empty for members placed in several steps), and `terms` what each is: a level and its measure ("rack units"), those of a class ("node of workers squares"), "cost".
    `conflict` names the rules that exclude one another. `source` is the kind of object that describes it;
    between `minimum` and `maximum` members may be placed, None stands for no limit. `message` says why
    it waits, `would_fit` the largest smaller group that fits now (0: none is known).
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


class GroupPlanner(Protocol):
    """The methods of a plugin that decides groups."""

    name: str

    def group_of(self, pod: Pod) -> str:
        """Return the key of the pod's group, or an empty text for a pod on its own."""

    def regrouped_by(self, change: Change) -> Callable[[Pod], bool] | None:
        """Return which pods a change may have made members of a group, or members no more; None for none.

        Any planner's answer is the same.
        """

    def group_priority(self, key: str, pods: Sequence[Pod]) -> int:
        """Return the priority with which these waiting members ask for room, and keep it."""

    def group_may_evict(self, key: str, pods: Sequence[Pod]) -> bool:
        """Whether others may be evicted for these waiting members, by all that objects say."""

    def group_wanted(self, key: str, pods: Sequence[Pod]) -> tuple[str, ...] | Status:
        """Return the uids of the members to decide now, or why the group has to wait."""

    def group_lacks(self, key: str) -> bool:
        """Return whether a refused group cannot be placed now, by the amounts of all nodes alone."""

    def groups_begun(self) -> Sequence[str]:
        """Return the groups that are bound in part and, by all that objects say, were never whole."""

    def group_short(
        self, key: str, uid: str, unbound: Collection[str], displaced: Iterable[str]
    ) -> str:
        """Return that a group must not begin, as it needs more members by now than have a place.

        Asked before each of its binds, `uid` being who is bound. The members `unbound` (by uid) are not known to be
        bound, the `displaced` lose their places, or have; a group of which others are on nodes has begun, and
        the text is empty. Of a group in which others are, each of those that `uid` is in begins on its own.
        """

    def plan_group(
        self, key: str, context: PlanningContext
    ) -> Generator[SolverCall, CallResult, Outcome]:
        """Decide where all members go."""

    def disruption_units(self, since: int) -> DisruptionUnits:
        """Return the groups whose members, mode or priority may have changed after the mark `since`.

        A mark is a number above 0; 0 asks for all groups with members on nodes.
        """

    def group_changed(self) -> set[str]:
        """Return the groups whose members or description changed since this was last asked."""

    def group_told(self, key: str, stage: GroupStage, now: float) -> Sequence[Told]:
        """Hear what became of the group; return what writes it down, and what is told about it."""

    def group_evicted(
        self, victims: Sequence[Placed], whom: str, group: str, reporter: str
    ) -> Sequence[GroupEvent]:
        """Hear, before they go, whom evictions take; return what the groups of those are told.

        They make room for `whom`, "pod NAMESPACE/NAME" or "group NAME"; `group` is the name alone, empty
        for a pod on its own. `reporter` is the preemptor's profile.
        """

    def group_spared(self, victims: Sequence[Placed]) -> None:
        """Hear that evictions have failed: those of the victims who are there still may stay."""

    def group_left(self, key: str) -> Sequence[Placed]:
        """Return the members that stand though their group was evicted: that did not come to its end."""

    def has_group(self, key: str) -> bool:
        """Return whether there is an object or a pod of the group."""

    def group_presence(self, key: str) -> tuple[int, int]:
        """Return how many members are on nodes or have finished, and the minimum (0: not described)."""

    def group_statuses(self) -> Mapping[str, int]:
        """Return how many groups have each status; asked at every scrape of the metrics."""

    def group_reports(self) -> Sequence[GroupReport]:
        """Return what is to be said of all groups that were decided or are held."""
