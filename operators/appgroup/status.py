"""The status of an AppGroup as a function of its inputs, without clock and I/O.

The operator gathers `ObservedGroup`, calls `status_of` when the object, its pods or the costs
between them have changed, and sends the result of `merge_patch`. Both are total: they accept every
object that the API server stores. Texts begin with the name of their field.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from operators.conditions import SHOWN, document, listed, with_condition
from operators.cooperative import Steps, at_once
from scheduler.base.errors import ObjectError
from scheduler.base.reasons import SCHEDULED, UNSCHEDULABLE
from scheduler.base.text import did_you_mean
from scheduler.objects.groups.appgroup import (
    AppGroupSpec,
    AppGroupStatus,
    OrderEntry,
    ScheduledPod,
    Workload,
    WorkloadRef,
)
from scheduler.objects.groups.grouporder import (
    ALGORITHMS,
    DEFAULT_ALGORITHM,
    MOST_WORKLOADS,
    Order,
    finder,
    order_of,
)
from scheduler.objects.meta import Condition
from scheduler.objects.network import Statistics
from scheduler.objects.quantity import quantity

READY, CYCLIC, UNKNOWN_WORKLOADS = "Ready", "Cyclic", "UnknownWorkloads"
GANG = "GangScheduled"
LISTED_PODS = 500
MOST_COMPARED = 200
HIGHEST_COST = 10_000


class ObservedPod(msgspec.Struct, frozen=True):
    """A pod of the group as the API server shows it; `workload` is the value of its label."""

    namespace: str
    name: str
    workload: str = ""
    phase: str = ""
    node: str = ""


class ObservedGroup(msgspec.Struct, frozen=True):
    """The inputs of the status besides the spec; `now` is RFC 3339 in whole seconds.

    `namespace` is the group's own. `costs` are the known placed costs by workload label, `total` is
    that of all. `oddities` are texts on pods that resemble members and are none (a misspelt label).
    """

    generation: int
    previous: AppGroupStatus
    now: str
    pods: tuple[ObservedPod, ...] = ()
    costs: Mapping[str, Statistics] = {}
    total: Statistics | None = None
    oddities: tuple[str, ...] = ()
    namespace: str = ""


def status_of(spec: AppGroupSpec, observed: ObservedGroup) -> AppGroupStatus:
    """Return the desired status."""
    return at_once(status_steps(spec, observed))


def status_steps(spec: AppGroupSpec, observed: ObservedGroup) -> Steps[AppGroupStatus]:
    """Work out `status_of` in steps."""
    previous = observed.previous
    members = spec.members[:MOST_WORKLOADS]
    order = order_of(members, spec.topology_sorting_algorithm)
    yield
    entries = topology_order(members, order, observed.costs)
    wrong = list(faults(spec))
    yield
    astray = [*unknown_workloads(spec, observed.pods), *observed.oddities]
    yield
    placed = [pod for pod in observed.pods if pod.node]
    running = sum(pod.phase == "Running" for pod in observed.pods)
    listed = _listed(placed)
    yield
    is_same = _indices(entries) == _indices(previous.topology_order)
    calculated = previous.topology_calculation_time if is_same else None
    return AppGroupStatus(
        observed_generation=observed.generation,
        # Both count pods: the older name has always meant that.
        running_workloads=running,
        running_pods=running,
        pods_scheduled=listed,
        schedule_start_time=previous.schedule_start_time or (observed.now if placed else None),
        topology_calculation_time=calculated or observed.now,
        topology_order=entries,
        app_group_statistics=observed.total,
        gang=previous.gang,
        conditions=_conditions(spec, order, observed, wrong, astray),
    )


def topology_order(
    workloads: Iterable[Workload], order: Order, costs: Mapping[str, Statistics] | None = None
) -> tuple[OrderEntry, ...]:
    """Return the order as status holds it: sorted by selector, the place as index from 1 on."""
    refs: dict[str, WorkloadRef] = {}
    for entry in workloads:
        refs.setdefault(entry.workload.label, entry.workload)
    places = {label: place for place, label in enumerate(order.labels, 1)}
    known = costs or {}
    return tuple(
        OrderEntry(_complete(refs[label]), places[label], known.get(label))
        for label in sorted(places)
    )


def merge_patch(
    previous: AppGroupStatus, wanted: AppGroupStatus, *, legacy: bool = False
) -> dict[str, Any]:
    """Return the changed fields of the status, empty without a change.

    `legacy` is for a definition without status subresource: there every write increments the
    generation, and the older schema drops unknown fields.
    """
    before, after = _document(previous), _document(wanted)
    if legacy:
        known = (
            "runningWorkloads",
            "scheduleStartTime",
            "topologyCalculationTime",
            "topologyOrder",
        )
        before = {key: before[key] for key in known if key in before}
        after = {key: after[key] for key in known if key in after}
    patch = {key: value for key, value in after.items() if before.get(key) != value}
    return patch | {key: None for key in before if key not in after}


def faults(spec: AppGroupSpec) -> Iterator[str]:
    """Yield the mistakes in a spec other than cycles, each beginning with the field."""
    algorithm = spec.topology_sorting_algorithm
    if algorithm and algorithm not in ALGORITHMS:
        hint = did_you_mean(algorithm, ALGORITHMS)
        yield (
            f'spec.topologySortingAlgorithm: "{algorithm}" is not known{hint}; '
            f"{DEFAULT_ALGORITHM} is used"
        )
    count = len(spec.members)
    if count > MOST_WORKLOADS:
        yield f"spec.workloads: {count} entries, only the first {MOST_WORKLOADS} are looked at"
    members = spec.members[:MOST_WORKLOADS]
    twice = Counter(entry.workload.label for entry in members)
    for label, times in twice.items():
        if times > 1:
            yield f'spec.workloads: selector "{label}" is listed {times} times; read as one'
    for number, entry in enumerate(members):
        where = f"spec.workloads[{number}]"
        if not entry.workload.label:
            yield f"{where}.workload.selector: is missing, so that no pod belongs to it"
        yield from _dependency_faults(entry, where)


def unknown_workloads(spec: AppGroupSpec, pods: Iterable[ObservedPod]) -> Iterator[str]:
    """Yield names of dependencies, or in pods' labels, that are no workload of the group."""
    find = finder(spec.members)
    for number, entry in enumerate(spec.members[:MOST_WORKLOADS]):
        for place, dependency in enumerate(entry.dependencies):
            if find(dependency.workload) is None:
                where = f"spec.workloads[{number}].dependencies[{place}].workload"
                yield f'{where}: "{dependency.workload.label}" is no workload of the group'
    labels = [entry.workload.label for entry in spec.members]
    known = set(labels)
    astray = Counter(pod.workload for pod in pods if pod.workload not in known)
    for number, (label, times) in enumerate(sorted(astray.items())):
        # A hint is expensive: it is computed for as many names as a message shows, among names of
        # similar length.
        near = _similar_names(label, labels[:MOST_WORKLOADS]) if number < SHOWN else ()
        named = f'"{label}"{did_you_mean(label, near)}' if label else "nothing"
        yield f"{times} pod(s) name {named} as their workload, which is none of the group"


def _similar_names(label: str, known: Iterable[str]) -> list[str]:
    return sorted(known, key=lambda name: (abs(len(name) - len(label)), name))[:MOST_COMPARED]


def _dependency_faults(entry: Workload, where: str) -> Iterator[str]:
    for place, dependency in enumerate(entry.dependencies):
        at = f"{where}.dependencies[{place}]"
        cost = dependency.max_network_cost
        if cost is not None and not 0 <= cost <= HIGHEST_COST:
            yield f"{at}.maxNetworkCost: {cost} is not between 0 and {HIGHEST_COST}"
        if dependency.min_bandwidth is None:
            continue
        try:
            amount = quantity(dependency.min_bandwidth)
        except ObjectError as error:
            yield f"{at}.minBandwidth: {error.message}"
            continue
        if amount < 0:
            yield f"{at}.minBandwidth: {dependency.min_bandwidth} is negative"


def _conditions(
    spec: AppGroupSpec, order: Order, observed: ObservedGroup, wrong: list[str], astray: list[str]
) -> tuple[Condition, ...]:
    ring = " -> ".join((*order.cycle, *order.cycle[:1]))
    if order.cycle:
        ready = ("False", "Cyclic", f"spec.workloads depend on one another in a ring: {ring}")
    elif not spec.members:
        ready = ("False", "NoWorkloads", "spec.workloads: there are none")
    elif wrong:
        ready = ("False", "InvalidSpec", listed(wrong))
    else:
        ready = ("True", "Ordered", f"{len(order.labels)} workload(s) are in order")
    cyclic = (
        ("True", "Cycle", f"{ring}; the order is that of the listing")
        if order.cycle
        else ("False", "NoCycle", "no workload depends on itself through others")
    )
    unknown = (
        ("True", "NotListed", listed(astray))
        if astray
        else ("False", "AllListed", "all who are named are workloads of the group")
    )
    found = tuple(one for one in observed.previous.conditions if spec.gang or one.type != GANG)
    for type_, (status, reason, message) in (
        (READY, ready),
        (CYCLIC, cyclic),
        (UNKNOWN_WORKLOADS, unknown),
        *([(GANG, _gang(spec, observed))] if spec.gang else []),
    ):
        new = Condition(type_, status, observed.generation, "", reason, message)
        found = with_condition(found, new, observed.now)
    return found


def _gang(spec: AppGroupSpec, observed: ObservedGroup) -> tuple[str, str, str]:
    """Return the condition of a gang: whether its minimum has nodes, and if not, why."""
    least: Counter[str] = Counter()
    for entry in spec.members[:MOST_WORKLOADS]:
        least[entry.workload.label] += 1 if entry.min_members is None else entry.min_members
    own = (pod for pod in observed.pods if pod.namespace == observed.namespace and pod.node)
    placed = Counter(pod.workload for pod in own)
    lacking = [label for label in least if placed[label] < least[label]]
    if not lacking:
        return "True", SCHEDULED, f"all {least.total()} pod(s) that it needs have nodes"
    previous_gang = observed.previous.gang
    if previous_gang is not None and previous_gang.phase == "Pending" and previous_gang.message:
        return "False", UNSCHEDULABLE, previous_gang.message
    texts = (
        f'"{label}" has {placed[label]} of {least[label]} pod(s) on nodes' for label in lacking
    )
    return "False", "Incomplete", listed(list(texts))


def _listed(placed: Iterable[ObservedPod]) -> tuple[ScheduledPod, ...]:
    ordered = sorted(placed, key=lambda pod: (pod.workload, pod.namespace, pod.name))
    return tuple(ScheduledPod(pod.workload, pod.name, pod.node) for pod in ordered[:LISTED_PODS])


def _indices(entries: Iterable[OrderEntry]) -> list[tuple[str, int]]:
    return [(entry.workload.label, entry.index) for entry in entries]


def _complete(ref: WorkloadRef) -> WorkloadRef:
    """Add required fields of a workload that older objects lack."""
    return msgspec.structs.replace(
        ref,
        selector=ref.label,
        name=ref.name or ref.selector,
        kind=ref.kind or "Deployment",
    )


def _document(status: AppGroupStatus) -> dict[str, Any]:
    """Return a status as a document without None and unset fields; conditions are complete."""
    written: dict[str, Any] = msgspec.to_builtins(status)
    if status.conditions:
        written["conditions"] = [document(one) for one in status.conditions]
    return written
