"""Tiny plugins for tests of the engine, steered by the labels of the pod alone.

    zone=a            only nodes with label zone=a           apart=x     no two of them on a node
    reserve=reject    Ledger rejects at reserve              permit=wait|reject|opens|shuts
    prebind=call|wait|both       preempt=yes                  raise=filter.unreserve, times=2

`Raiser` serves every point and raises where `raise` says, `times` times each ("always" for ever).
Their state is in the instances, so that a run can be replayed in another process.
"""

from collections import Counter
from collections.abc import Generator
from typing import Any

import msgspec
import numpy as np

from scheduler.base.arrays import IntColumn
from scheduler.engine.engine import Engine
from scheduler.engine.settings import EngineSettings
from scheduler.framework.args import NoArgs
from scheduler.framework.calls import ApiCall, BindPod, BindStep, CallResult, Offer, WaitUntil
from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import POINTS, Plugin
from scheduler.framework.postfilter import FitFailure, PostFiltered
from scheduler.framework.profile import ListedPlugin, ProfileSpec
from scheduler.framework.registry import Registry
from scheduler.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Rejected,
    Status,
    reject,
    unresolvable,
    unschedulable,
    wait,
)
from scheduler.objects.pod import NodeSelectorRequirement, Pod
from scheduler.state.podindex import Placed
from tests.property.making import SCHEDULER

PERMIT_TIMEOUT_S = 30.0
PREBIND_TIMEOUT_S = 20.0


def label(pod: Pod, key: str) -> str:
    """Return a label of the pod, or an empty text."""
    return pod.metadata.labels.get(key, "")


class Sort(Plugin[NoArgs]):
    """Priority, then time in the queue, by comparisons (no ready key)."""

    def less(self, first: Any, second: Any) -> bool:
        """Return whether `first` goes before `second`."""
        if "less" in label(first.pod, "raise").split("."):
            raise RuntimeError("less is broken")
        return bool((-first.priority, first.queued_at) < (-second.priority, second.queued_at))


class Gates(Plugin[NoArgs]):
    """Hold pods with scheduling gates, and pods with label `needs` until that service exists."""

    reads = ("self.gates", "self.labels", "Service")

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold the pod while it has gates."""
        if pod.spec.scheduling_gates:
            return unresolvable("waiting for scheduling gates")
        needs = label(pod, "needs")
        if needs and f"default/{needs}" not in self.handle.objects("Service"):
            return unresolvable("waiting for a service")
        return None


class Fit(Plugin[NoArgs]):
    """Filter by free CPU for the pod; prefer the emptiest node."""

    reads = ("pod.deleted", "pod.requests", "node.allocatable", "self.requests")
    local = True

    def pre_filter(self, cycle: Cycle, nodes: Nodes) -> int:
        """Return the requested milli CPU."""
        return cycle.shape.requests.get("cpu", 0)

    def filter(self, cycle: Cycle, nodes: Nodes, wanted: int) -> Rejected | None:
        """Reject full nodes."""
        total = nodes.allocatable("cpu")
        full = nodes.requested("cpu") + wanted > total
        if not full.any():
            return None
        return reject(full, "Insufficient cpu").with_final(wanted > total)

    def score(self, cycle: Cycle, nodes: Nodes, wanted: int) -> IntColumn:
        """Return the free share in percent."""
        total = np.maximum(nodes.allocatable("cpu"), 1)
        free = np.maximum(total - nodes.requested("cpu") - wanted, 0)
        return free * 100 // total


class Zone(Plugin[NoArgs]):
    """Keep to the zone that the pod names."""

    reads = ("node.labels", "self.labels")
    local = True

    def pre_filter(self, cycle: Cycle, nodes: Nodes) -> Status | str:
        """Skip pods that name no zone."""
        return label(cycle.pod, "zone") or SKIP

    def filter(self, cycle: Cycle, nodes: Nodes, zone: str) -> Rejected:
        """Reject nodes in other zones."""
        there = nodes.label_mask(NodeSelectorRequirement("zone", "In", (zone,)))
        return reject(~there, "node(s) were elsewhere", final=True)


class Companions:
    """The number of pods of one `apart` group on each row."""

    def __init__(self, group: str, counts: IntColumn) -> None:
        self.group = group
        self.counts = counts

    def copy(self) -> "Companions":
        """Return an independent copy."""
        return Companions(self.group, self.counts.copy())


class Apart(Plugin[NoArgs]):
    """Keep pods of one group on different nodes; not local, follows hypothetical pods itself."""

    reads = ("pod.deleted", "pod.labels", "node.labels", "self.labels")

    def pre_filter(self, cycle: Cycle, nodes: Nodes) -> Status | Companions:
        """Count the group's pods on each row."""
        group = label(cycle.pod, "apart")
        if not group:
            return SKIP
        counts = np.zeros(nodes.size, dtype=np.int64)
        for row in np.flatnonzero(nodes.exists):
            pods = nodes.pods_on(int(row)).values()
            counts[row] = sum(label(placed.pod, "apart") == group for placed in pods)
        return Companions(group, counts)

    def add_pod(self, state: Companions, placed: Placed, row: int) -> None:
        """Count one more pod."""
        state.counts[row] += label(placed.pod, "apart") == state.group

    def remove_pod(self, state: Companions, placed: Placed, row: int) -> None:
        """Count one pod less."""
        state.counts[row] -= label(placed.pod, "apart") == state.group

    def filter(self, cycle: Cycle, nodes: Nodes, state: Companions) -> Rejected | None:
        """Reject rows with a pod of the group."""
        return reject(state.counts > 0, "node(s) had a pod of the group")


class Evictor(Plugin[NoArgs]):
    """Free capacity on the first node where evicting lower pods is enough."""

    reads = ("pod.deleted", "self.labels")

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Reject the pod while its evictions are not complete."""
        if self.handle.is_preempting(pod.metadata.uid):
            return unschedulable("waiting for evictions")
        return None

    def post_filter(self, cycle: Cycle, nodes: Nodes, failure: FitFailure) -> PostFiltered:
        """Evict all lower pods of a node if the pod fits without them."""
        pod = cycle.pod
        if label(pod, "preempt") != "yes":
            return PostFiltered(unschedulable(), text="not asked to")
        nominated = nodes.row(pod.status.nominated_node_name)
        if nominated is not None and any(
            placed.pod.is_terminating and placed.pod.priority < pod.priority
            for placed in nodes.pods_on(nominated).values()
        ):
            return PostFiltered(unschedulable(), text="victims are leaving")
        rows = np.flatnonzero(failure.candidates)
        moves = [
            (placed, int(row))
            for row in rows
            for placed in nodes.pods_on(int(row)).values()
            if placed.pod.priority < pod.priority
        ]
        passed, _ = failure.attempted.filter(rows, removed=moves)
        found = {}
        for row in np.flatnonzero(passed):
            victims = tuple(placed for placed, where in moves if where == row)
            if victims:
                found[nodes.name(int(row))] = victims
        if not found:
            return PostFiltered(unschedulable(), nominated_node="", text="no pod to evict")
        if failure.wants_offers:
            uids = {n: tuple(v.pod.metadata.uid for v in victims) for n, victims in found.items()}
            offers = tuple(Offer(node, victims) for node, victims in uids.items())

            def choose(left: tuple[Offer, ...]) -> PostFiltered:
                first = left[0]
                here = nodes.pods_on(nodes.rows_of([first.node])[0])
                victims = tuple(here[uid] for uid in first.victims if uid in here)
                return PostFiltered(SUCCESS, first.node, victims, text=f"goes to {first.node}")

            return PostFiltered(offers=offers, choose=choose)
        node, victims = next(iter(found.items()))
        return PostFiltered(SUCCESS, node, victims)


class Ledger(Plugin[NoArgs]):
    """Book reservations, and write down every mistake in their balance."""

    reads = ("self.labels",)

    def __init__(self, args: NoArgs, handle: Any) -> None:
        super().__init__(args, handle)
        self.reserved: dict[str, str] = {}
        self.mistakes: list[str] = []

    def reserve(self, cycle: Cycle, node: str) -> Status:
        """Book the pod on the node."""
        uid = cycle.pod.metadata.uid
        if uid in self.reserved:
            self.mistakes.append(f"{uid} reserved twice")
        if label(cycle.pod, "reserve") == "reject":
            return unschedulable("reserve said no")
        self.reserved[uid] = node
        return SUCCESS

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """Strike the booking out; a booking that was never made is fine."""
        booked = self.reserved.pop(cycle.pod.metadata.uid, node)
        if booked != node:
            self.mistakes.append(f"{cycle.pod.metadata.uid} booked on {booked}, given up on {node}")


class Doorman(Plugin[NoArgs]):
    """Pods wait at permit; some pods allow or reject all waiting ones."""

    reads = ("self.labels",)

    def permit(self, cycle: Cycle, node: str) -> Status | None:
        """Decide by the pod's label."""
        match label(cycle.pod, "permit"):
            case "wait":
                return wait(PERMIT_TIMEOUT_S)
            case "reject":
                return unschedulable("permit said no")
            case "opens":
                for pod in self.handle.waiting_pods():
                    self.handle.allow(pod.metadata.uid, self.name)
            case "shuts":
                for pod in self.handle.waiting_pods():
                    self.handle.reject(pod.metadata.uid, self.name, "sent away")
        return None


class Preparer(Plugin[NoArgs]):
    """Create a service before binding, and wait until the watch shows it."""

    reads = ("Service", "self.labels")

    def pre_bind(self, cycle: Cycle, node: str) -> Generator[BindStep, CallResult, Status]:
        """Make the call and the wait that the pod's label requests."""
        name, what = cycle.pod.metadata.name, label(cycle.pod, "prebind")
        if what in ("call", "both"):
            path = f"/api/v1/namespaces/default/services/{name}"
            answer = yield ApiCall("PUT", path, {"metadata": {"name": name}})
            if not answer.ok:
                return Status(Code.ERROR, (answer.message or f"HTTP {answer.code}",))
        if what in ("wait", "both"):
            answer = yield WaitUntil(
                lambda: f"default/{name}" in self.handle.objects("Service"),
                ("Service",),
                PREBIND_TIMEOUT_S,
            )
            if not answer.ok:
                return unschedulable("the service did not appear")
        return SUCCESS


class Raiser(Plugin[NoArgs]):
    """Raise at the points that the pod names."""

    reads = ("self.labels",)
    local = True

    def __init__(self, args: NoArgs, handle: Any) -> None:
        super().__init__(args, handle)
        self.raised: Counter[tuple[str, str]] = Counter()
        self.normalize = self._normalize

    def _at(self, pod: Pod, point: str) -> None:
        if point not in label(pod, "raise").split("."):
            return
        key = (pod.metadata.uid, point)
        times = label(pod, "times") or "2"
        if times == "always" or self.raised[key] < int(times):
            self.raised[key] += 1
            raise RuntimeError(f"broken at {point}")

    def pre_enqueue(self, pod: Pod) -> None:
        """Raise if the pod's label demands it."""
        self._at(pod, "pre_enqueue")

    def hint(self, change: Any, pod: Pod) -> bool:
        """Raise if the pod's label demands it."""
        self._at(pod, "hint")
        return False

    def pre_filter(self, cycle: Cycle, nodes: Nodes) -> None:
        """Raise if the pod's label demands it."""
        self._at(cycle.pod, "pre_filter")

    def filter(self, cycle: Cycle, nodes: Nodes, state: None) -> None:
        """Raise if the pod's label demands it."""
        self._at(cycle.pod, "filter")

    def post_filter(self, cycle: Cycle, nodes: Nodes, failure: FitFailure) -> PostFiltered:
        """Raise if the pod's label demands it; otherwise find nothing."""
        self._at(cycle.pod, "post_filter")
        return PostFiltered(unschedulable(), text="no luck")

    def pre_score(self, cycle: Cycle, nodes: Nodes, state: None) -> None:
        """Raise if the pod's label demands it."""
        self._at(cycle.pod, "pre_score")

    def score(self, cycle: Cycle, nodes: Nodes, state: None) -> IntColumn:
        """Raise if the pod's label demands it; otherwise score all nodes equally."""
        self._at(cycle.pod, "score")
        return np.zeros(nodes.size, dtype=np.int64)

    def _normalize(self, cycle: Cycle, nodes: Nodes, raw: IntColumn) -> IntColumn:
        self._at(cycle.pod, "normalize")
        return raw

    def reserve(self, cycle: Cycle, node: str, state: None) -> None:
        """Raise if the pod's label demands it."""
        self._at(cycle.pod, "reserve")

    def unreserve(self, cycle: Cycle, node: str, state: None) -> None:
        """Raise if the pod's label demands it."""
        self._at(cycle.pod, "unreserve")

    def permit(self, cycle: Cycle, node: str) -> None:
        """Raise if the pod's label demands it."""
        self._at(cycle.pod, "permit")

    def pre_bind(
        self, cycle: Cycle, node: str, state: None
    ) -> Generator[BindStep, CallResult, Status]:
        """Raise if the pod's label demands it, before, while waiting or when closed."""
        self._at(cycle.pod, "pre_bind")
        if "predicate" in label(cycle.pod, "raise").split("."):

            def broken() -> bool:
                self._at(cycle.pod, "predicate")
                return True

            yield WaitUntil(broken, ("Service",), PREBIND_TIMEOUT_S)
        if "close" in label(cycle.pod, "raise").split("."):
            try:
                yield WaitUntil(lambda: False, ("Service",), PREBIND_TIMEOUT_S)
            finally:
                self._at(cycle.pod, "close")
        return SUCCESS

    def post_bind(self, cycle: Cycle, node: str) -> None:
        """Raise if the pod's label demands it."""
        self._at(cycle.pod, "post_bind")


class Bell(Plugin[NoArgs]):
    """Count post-bind calls."""

    def __init__(self, args: NoArgs, handle: Any) -> None:
        super().__init__(args, handle)
        self.rung: Counter[str] = Counter()

    def post_bind(self, cycle: Cycle, node: str) -> None:
        """Count the pod."""
        self.rung[cycle.pod.metadata.uid] += 1


class Binder(Plugin[NoArgs]):
    """Bind by the binding subresource."""

    def bind(self, cycle: Cycle, node: str) -> Generator[BindPod, CallResult, Status]:
        """Bind the pod."""
        if "bind" in label(cycle.pod, "raise").split("."):
            raise RuntimeError("broken at bind")
        answer = yield BindPod(cycle.pod, node)
        if answer.ok:
            return SUCCESS
        return Status(Code.ERROR, (answer.message or answer.reason or "no answer",))


# `Raiser` is between `Ledger` and `Bell`: its exceptions must not prevent their calls.
ALL: tuple[type[Plugin[Any]], ...] = (
    Sort, Gates, Zone, Apart, Fit, Evictor, Ledger, Raiser, Doorman, Preparer, Bell, Binder,
)  # fmt: skip


def spec_of(*classes: type[Plugin[Any]], name: str = SCHEDULER) -> ProfileSpec:
    """Return a profile of these plugins at every point they serve, in this order."""
    plugins = {
        point: tuple(ListedPlugin(cls.name, 1) for cls in classes if cls.serves(method))
        for method, point in POINTS.items()
    }
    return ProfileSpec(name, plugins, {})


def tiny_engine(settings: EngineSettings | None = None) -> Engine:
    """Return an engine with all tiny plugins."""
    return Engine([spec_of(*ALL)], Registry(ALL), settings=settings)


def plugin_of(engine: Engine, name: str) -> Any:
    """Return an engine's instance of a plugin."""
    return engine.profiles[SCHEDULER].plugins[name]


def settings_with(**changes: Any) -> EngineSettings:
    """Return engine settings that differ in some fields."""
    return msgspec.structs.replace(EngineSettings(), **changes)
