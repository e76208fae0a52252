"""`NodeLoad`: the pods on one node, and the estimates to add to its last report.

A pod counts with its estimate until a report can include it: a pod that is not reported, that was
assigned within the interval of the report, or whose owner requests it for longer. All times are
compared with the report's, never with the clock, so that the sums change with events alone.
"""

from collections.abc import Iterable

import msgspec

from scheduler.base.clock import parse_rfc3339
from scheduler.base.errors import ObjectError
from scheduler.framework import Pod
from scheduler.objects.podclass import PROD, priority_class
from scheduler.plugins.loadaware.estimate import estimate
from scheduler.plugins.loadaware.report import LoadReport
from scheduler.plugins.loadaware.settings import Settings, Vector

JUST_NOW = float("inf")
NO_DEADLINE = float("-inf")


class Entry(msgspec.Struct, frozen=True):
    """A pod on a node; `assigned` is infinite until its time is confirmed.

    Until `deadline` the pod is estimated even if reports have seen it.
    """

    key: str
    estimate: Vector
    is_prod: bool
    assigned: float
    deadline: float


class Weight(msgspec.Struct, frozen=True):
    """The estimate of a pod and whether it is prod, from its spec and annotations alone."""

    estimate: Vector
    is_prod: bool


def weigh(pod: Pod, settings: Settings) -> Weight:
    """Return estimate and class; a pod whose quantities cannot be read is not estimated."""
    try:
        return Weight(estimate(pod, settings), priority_class(pod) == PROD)
    except ObjectError:
        return Weight(settings.nothing, is_prod=False)


def entry_of(pod: Pod, weight: Weight, settings: Settings) -> Entry | None:
    """Return the entry of a placed pod; None for a pod that only reserves capacity."""
    if pod.metadata.annotations.reserve_pod == "true":
        return None
    assigned = _since(pod, "PodScheduled", JUST_NOW)
    deadline = forced_until(pod, assigned, settings)
    return Entry(pod.key, weight.estimate, weight.is_prod, assigned, deadline)


def forced_until(pod: Pod, assigned: float, settings: Settings) -> float:
    """Return the time until which a pod counts with its estimate although reports include it;
    `NO_DEADLINE` if none.
    """
    after_scheduled = settings.seconds_after_scheduled
    after_initialized = settings.seconds_after_initialized
    if settings.customizable:
        own = pod.metadata.annotations
        after_scheduled = _whole(own.load_seconds_after_scheduled, after_scheduled)
        after_initialized = _whole(own.load_seconds_after_initialized, after_initialized)
    if after_initialized > 0:
        initialized = _since(pod, "Initialized", NO_DEADLINE)
        if initialized != NO_DEADLINE:
            return initialized + after_initialized
    return assigned + after_scheduled if after_scheduled > 0 else NO_DEADLINE


class NodeLoad:
    """The sums of one node, updated with every pod and every report.

    `node_delta` is the estimated usage of pods that the report lacks. With `counts_prod`,
    `prod_delta` is the same for production pods and `prod_usage` what reported production pods use;
    else both are zero.
    """

    __slots__ = (
        "counts_prod",
        "entries",
        "node_delta",
        "prod_delta",
        "prod_usage",
        "report",
        "width",
    )

    def __init__(self, width: int) -> None:
        self.width = width
        self.counts_prod = False
        self.report: LoadReport | None = None
        self.entries: dict[str, Entry] = {}
        self._clear()

    def put(self, uid: str, entry: Entry) -> None:
        """Count a pod, replacing its earlier count."""
        before = self.entries.get(uid)
        if before == entry:
            return
        if before is not None:
            self._count(before, -1)
        self.entries[uid] = entry
        self._count(entry, 1)

    def drop(self, uid: str) -> bool:
        """Stop counting a pod; return whether it was counted."""
        entry = self.entries.pop(uid, None)
        if entry is not None:
            self._count(entry, -1)
        return entry is not None

    def take(self, report: LoadReport | None) -> None:
        """Apply a new report; None for its removal."""
        self.report = report
        self._recount()

    def count_prod(self, *, counts: bool) -> None:
        """Set whether production pods are summed separately."""
        if counts != self.counts_prod:
            self.counts_prod = counts
            self._recount()

    def estimated(self) -> list[int]:
        """Return the estimates of all pods, whether a report has seen them or not."""
        total = [0] * self.width
        for entry in self.entries.values():
            _add(total, entry.estimate, 1)
        return total

    def _recount(self) -> None:
        self._clear()
        report = self.report
        if report is None:
            return
        entries = self.entries.values()
        for entry in _unseen_by(report, entries, with_prod=self.counts_prod):
            self._count(entry, 1)

    def production(self) -> list[int]:
        """Return the usage of production pods: reported ones, and the system's if requested."""
        if self.report is None:
            return list(self.prod_usage)
        return [used + more for used, more in zip(self.prod_usage, self.report.system, strict=True)]

    def in_node_delta(self) -> list[str]:
        """Return the uids of the pods whose estimate is added to the node's usage."""
        return [uid for uid, entry in self.entries.items() if any(self._unseen(entry))]

    def in_prod_delta(self) -> list[str]:
        """Return the uids of the production pods whose estimate is added to the production
        usage.
        """
        return [uid for uid, entry in self.entries.items() if any(self._unseen_prod(entry))]

    def _clear(self) -> None:
        self.node_delta = [0] * self.width
        self.prod_delta = [0] * self.width
        self.prod_usage = [0] * self.width

    def _count(self, entry: Entry, sign: int) -> None:
        report = self.report
        if report is None:
            return
        unseen = self._unseen(entry)
        if unseen:
            _add(self.node_delta, unseen, sign)
        if self.counts_prod and entry.is_prod:
            _add(self.prod_delta, self._unseen_prod(entry), sign)
            if report.is_prod(entry.key):
                _add(self.prod_usage, report.usage_of(entry.key) or (), sign)

    def _unseen(self, entry: Entry) -> Vector:
        """Return the estimate to add to the node's reported use for a pod."""
        report = self.report
        if report is None:
            return ()
        if not _unseen_by(report, (entry,)):
            return ()
        usage = report.usage_of(entry.key)
        if usage is None:
            return entry.estimate
        return tuple([max(0, e - u) for e, u in zip(entry.estimate, usage, strict=True)])

    def _unseen_prod(self, entry: Entry) -> Vector:
        report = self.report
        if report is None or not entry.is_prod:
            return ()
        if entry.key in report.pods and not report.is_prod(entry.key):
            return entry.estimate  # the report does not count it among production pods
        return self._unseen(entry)


def _unseen_by(
    report: LoadReport, entries: Iterable[Entry], *, with_prod: bool = False
) -> list[Entry]:
    """Return the pods whose usage the report cannot include yet: few; with `with_prod` also all
    production pods.

    One pass over all pods of a node per report, therefore without a call per pod.
    """
    seen, updated = report.pods, report.updated
    covered = updated - report.interval_s
    return [
        entry
        for entry in entries
        if entry.assigned > covered
        or entry.key not in seen
        or entry.deadline > updated
        or (with_prod and entry.is_prod)
    ]


def _add(total: list[int], more: Vector, sign: int) -> None:
    for index, amount in enumerate(more):
        total[index] += sign * amount


def _since(pod: Pod, condition: str, otherwise: float) -> float:
    """Return since when a condition is True, `otherwise` when it is not."""
    found = pod.condition(condition)
    if found is None or found.status != "True":
        return otherwise
    try:
        moment = parse_rfc3339(found.last_transition_time)
    except (ValueError, OverflowError, OSError):
        return otherwise
    return otherwise if moment is None else moment


def _whole(text: str, otherwise: int) -> int:
    """Read seconds from an annotation; a negative or invalid value counts as absent."""
    if not text:
        return otherwise
    digits = text.removeprefix("+")
    if len(digits) > 18 or not (digits.isascii() and digits.isdigit()):
        return otherwise
    return int(digits)
