"""MovePlan (trellis.dev/v1alpha1): a goal, the plan of moves that reaches it, and how far it is.

The state of a plan is in these fields alone: the operator executes it and the engine derives
reservations from it, and both continue after a restart at any write.
"""

from collections.abc import Sequence

import msgspec

from scheduler.objects.meta import Condition, Int32, Int64, Object, ObjectMeta
from scheduler.objects.pod import ContainerPort, Pod

PLANNED, RESERVED, EVICTED, DONE = "Planned", "Reserved", "Evicted", "Done"
EXECUTING = "Executing"  # the phase of a plan whose moves are carried out
RESERVING = (RESERVED, EVICTED)
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


class FreeNodesGoal(Object, frozen=True):
    """`number` nodes, or domains of the node label `level`, run no pod that can leave."""

    number: Int32 = 1
    level: str = ""
    match_labels: dict[str, str] = {}


class LoadBelowGoal(Object, frozen=True):
    """No node uses more than `percent` of a resource, as NodeMetric objects report it."""

    percent: Int32 = 0
    resource: str = "cpu"


class RepairGoal(Object, frozen=True):
    """No pod runs on a node that its filters reject."""


class PlanGoal(Object, frozen=True):
    """One of these goals; `waiting` is `namespace/name` of a pending pod or group."""

    waiting: str = ""
    free_nodes: FreeNodesGoal | None = None
    load_below: LoadBelowGoal | None = None
    repair: RepairGoal | None = None


class PlanLimits(Object, frozen=True):
    """Limits of a plan: moves, seconds of the search, of each step, between two moves of one owner,
    and the age from which a pod may move.
    """

    max_moves: Int32 = 16
    search_seconds: Int32 = 10
    step_seconds: Int32 = 600
    cooldown_seconds: Int32 = 1800
    min_age_seconds: Int32 = 300


class PlanWindow(Object, frozen=True):
    """Evictions start only between these moments (RFC 3339); an absent one is no limit."""

    start: str | None = None
    end: str | None = None


class MovePlanSpec(Object, frozen=True):
    """The user's goal; `approved` must equal `status.planHash` for an execution."""

    goal: PlanGoal = PlanGoal()
    limits: PlanLimits = PlanLimits()
    window: PlanWindow = PlanWindow()
    namespaces: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    approved: str = ""
    paused: bool = False
    aborted: bool = False


class MoveOwner(Object, frozen=True):
    """The controller that creates the replacement."""

    kind: str = ""
    name: str = ""
    uid: str = ""


class PlannedMove(Object, frozen=True):
    """One move and its state: Planned, Reserved, Evicted or Done.

    `ordinal` is the pod's name under a StatefulSet, or the completion index under an indexed Job;
    empty where pods of the owner are interchangeable. `unit` names the pods that restart together:
    they are evicted together, and replacements are recognised by the name of their owner, which
    may be created again. `present` are the uids of the owner's pods on the source and the
    destination before the eviction: any other pod of the owner there is the replacement. `requests`
    and `host_ports` are reserved for it.
    """

    namespace: str = ""
    name: str = ""
    uid: str = ""
    source: str = msgspec.field(name="from", default="")
    target: str = msgspec.field(name="to", default="")
    owner: MoveOwner = MoveOwner()
    ordinal: str = ""
    unit: str = ""
    priority: Int32 = 0
    cost_seconds: Int64 = 0
    reason: str = ""
    requests: dict[str, str] = {}
    host_ports: tuple[ContainerPort, ...] = ()
    state: str = ""
    since: str | None = None
    deadline: str | None = None
    present: tuple[str, ...] = ()
    replacement: str = ""

    @property
    def pod(self) -> str:
        """Return `namespace/name` of the pod."""
        return f"{self.namespace}/{self.name}"

    @property
    def owner_key(self) -> str:
        """Return the name of the owner; see `owner_key`."""
        return owner_key(self.owner.kind, self.namespace, self.owner.name)


class PlanExclusion(Object, frozen=True):
    """A reason that excludes `count` pods from moving, with some of their names."""

    reason: str = ""
    pods: Int32 = 0
    examples: tuple[str, ...] = ()


class MovePlanStatus(Object, frozen=True):
    """The plan and its execution.

    `phase` is Proposed, Executing, Completed, Aborted, Impossible or Invalid; empty before the
    first plan. `planned_for` is the hash of the fields of spec that the plan depends on.
    """

    phase: str = ""
    observed_generation: Int64 = 0
    planned_for: str = ""
    plan_hash: str = ""
    planned_at: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    replans: Int32 = 0
    summary: str = ""
    statement: str = ""
    is_proven: bool = msgspec.field(name="proven", default=False)
    gap_percent: Int32 = 0
    before: str = ""
    after: str = ""
    freed: tuple[str, ...] = ()
    moves: tuple[PlannedMove, ...] = ()
    excluded: tuple[PlanExclusion, ...] = ()
    conditions: tuple[Condition, ...] = ()


class MovePlan(Object, frozen=True):
    """A plan of moves; cluster-scoped, because its moves may concern every namespace."""

    metadata: ObjectMeta
    spec: MovePlanSpec = MovePlanSpec()
    status: MovePlanStatus = MovePlanStatus()


def owner_key(kind: str, namespace: str, name: str) -> str:
    """Return the name that an owner keeps when it is created again, as a JobSet's Jobs are."""
    return f"{kind} {namespace}/{name}"


def ordinal_of(pod: Pod, owner_kind: str) -> str:
    """Return the name part that distinguishes a pod among the pods of its owner; '' for none."""
    if owner_kind == "StatefulSet":
        return pod.metadata.name
    return pod.metadata.labels.get(COMPLETION_INDEX, "") if owner_kind == "Job" else ""


def first_step(moves: Sequence[PlannedMove]) -> tuple[PlannedMove, ...]:
    """Return the first move with those whose pods restart together with its own."""
    unit, first = (moves[0].unit, moves[0].uid) if moves else ("", "")
    return tuple(m for m in moves if m.uid == first or (unit and m.unit == unit))


def serves(move: PlannedMove, pod: Pod) -> bool:
    """Return whether a pod may take the destination of a move: its owner made it in place of the
    moved pod.
    """
    if pod.metadata.uid == move.uid or pod.metadata.namespace != move.namespace:
        return False
    for owner in pod.metadata.owner_references:
        if not owner.controller:
            continue
        if move.unit:
            return (owner.kind, owner.name) == (move.owner.kind, move.owner.name)
        return owner.uid == move.owner.uid and ordinal_of(pod, move.owner.kind) == move.ordinal
    return False
