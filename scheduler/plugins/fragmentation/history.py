"""`MixHistory`: the pods that have left, by shape, in a PodMixHistory object.

The mix of pods counts the shapes in the object, never those that only this process has seen: a
restarted daemon, a standby and a simulation of the same objects have the same mix. Pods that leave
are collected until the leader writes them, at most once per period, with a change of the cluster.
Standbys drop what they have collected when the leader has written.
"""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from scheduler.base.clock import parse_rfc3339, rfc3339
from scheduler.base.errors import ApiError
from scheduler.framework import ApiCall
from scheduler.objects.reports.podmix import MOST_HISTORY_SHAPES, HistoryShape, PodMixHistory
from scheduler.plugins.fragmentation.needs import PodNeed
from scheduler.state.change import Change

if TYPE_CHECKING:
    from scheduler.framework import Handle
    from scheduler.state.cluster import Cluster

KIND = "PodMixHistory"
_PATH = "/apis/trellis.dev/v1alpha1/podmixhistories"
# Limit of different requirements that are collected between two writes.
_MOST_NEEDS = 4096
_NEVER = float("-inf")


class MixHistory:
    """Collect pods that leave, and write them into the object of this name."""

    kinds: tuple[str, ...] = (KIND,)
    follows: tuple[str, ...] = (KIND,)

    def __init__(self, name: str, encoded: bytes) -> None:
        self.name = name
        # The arguments by which shapes are counted: an object belongs to one set of arguments.
        self.encoded = encoded
        self.half_life_s = 0.0
        self.period_s = 0.0
        self._handle: Handle | None = None
        self._found: PodMixHistory | None = None
        self._gone: Counter[PodNeed] = Counter()
        self._sent: tuple[str, Counter[PodNeed]] = ("", Counter())
        self._tried_s = _NEVER

    def connect(self, handle: "Handle", half_life_s: float, period_s: float) -> None:
        """Set the function that writes, the half-life of a weight, and the minimum time between
        writes.
        """
        self._handle, self.half_life_s, self.period_s = handle, half_life_s, period_s

    def rebuild(self, cluster: "Cluster") -> None:
        """Read the object from `cluster`; no departed pod is recorded yet."""
        self._found = cluster.store.of(KIND).get(self.name)
        self._gone.clear()

    def apply(self, change: Change) -> None:
        """Apply a change of the PodMixHistory."""
        if change.new is None:
            if change.old.metadata.name == self.name:
                self._found = None
            return
        if change.new.metadata.name != self.name:
            return
        before, self._found = self._found, change.new
        if before is not None and before.as_of == self._found.as_of:
            return
        moment, counts = self._sent
        if self._found.as_of == moment:
            self._gone -= counts
        else:
            # Another daemon leads: it has seen these pods leave as well.
            self._gone.clear()
        self._sent = ("", Counter())

    def columns(self) -> dict[str, Any]:
        """Return the weights of the object's shapes, for invariants and dumps."""
        return {"shapes": [msgspec.to_builtins(shape) for shape in self.shapes]}

    @property
    def shapes(self) -> tuple[HistoryShape, ...]:
        """Return the shapes of the pods that have left, as the object states them."""
        return () if self._found is None else self._found.shapes

    def left(self, need: PodNeed) -> None:
        """Collect a pod that has left its node."""
        if need in self._gone or len(self._gone) < _MOST_NEEDS:
            self._gone[need] += 1

    def write_due(self, shape_of: Callable[[PodNeed], HistoryShape]) -> None:
        """Write the departed pods, unless there are none or the last write is less than a period
        ago.
        """
        if not self._gone or self._handle is None:
            return
        now, last_s = self._handle.now(), self._written_s()
        # An object of the future, by a wrong clock, delays no write.
        if any(0 <= now - moment < self.period_s for moment in (last_s, self._tried_s)):
            return
        if self._sent[0]:
            self._report_unwritten(self._sent[0])
        moment = rfc3339(now)
        body: dict[str, Any] = {
            "asOf": moment,
            "shapes": msgspec.to_builtins(self._merged(now - last_s, shape_of)),
        }
        if self._handle.send(self._call(body)):
            self._tried_s, self._sent = now, (moment, self._gone.copy())

    def _written_s(self) -> float:
        moment = None if self._found is None else parse_rfc3339(self._found.as_of)
        return _NEVER if moment is None else moment

    def _merged(
        self, elapsed_s: float, shape_of: Callable[[PodNeed], HistoryShape]
    ) -> list[HistoryShape]:
        """Return the object's shapes, decayed, with the pods that have left since."""
        kept = 0.5 ** (max(elapsed_s, 0.0) / self.half_life_s)
        weights: dict[HistoryShape, float] = {}
        for shape in self.shapes:
            plain = msgspec.structs.replace(shape, weight=0.0)
            weights[plain] = weights.get(plain, 0.0) + shape.weight * kept
        for need, count in self._gone.items():
            plain = shape_of(need)
            weights[plain] = weights.get(plain, 0.0) + count
        weighed = [
            msgspec.structs.replace(plain, weight=round(weight, 3))
            for plain, weight in weights.items()
            if round(weight, 3) > 0
        ]
        weighed.sort(
            key=lambda shape: (-shape.weight * (shape.devices or 1), msgspec.json.encode(shape))
        )
        return weighed[:MOST_HISTORY_SHAPES]

    def _call(self, body: dict[str, Any]) -> ApiCall:
        if self._found is None:
            head = {"apiVersion": "trellis.dev/v1alpha1", "kind": KIND}
            return ApiCall("POST", _PATH, {**head, "metadata": {"name": self.name}, **body})
        # With the version, the write fails if another writer was faster; it is repeated later.
        meta = {"resourceVersion": self._found.metadata.resource_version}
        path = f"{_PATH}/{self.name}"
        return ApiCall("PATCH", path, {"metadata": meta, **body}, "application/merge-patch+json")

    def _report_unwritten(self, moment: str) -> None:
        text = (
            f'PodMixHistory "{self.name}" was not written at {moment}: its definition '
            "(crds/podmixhistories.yaml) must be installed, and this account must be allowed to "
            "create and patch podmixhistories.trellis.dev; a change by another client has the same "
            "effect once. The pods that have left are written later"
        )
        assert self._handle is not None  # noqa: S101 - set before any write
        self._handle.fault("FragmentationAware", "History", ApiError(text))
