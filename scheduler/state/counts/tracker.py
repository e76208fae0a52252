"""`Tracker`: columns that a plugin family keeps, fed by every change of the cluster.

The engine calls a tracker directly after `Cluster` has applied a change: watched pods, assumed and
forgotten ones, and those of other schedulers. Invariant: the columns after any sequence of changes
equal those of a new tracker after `rebuild` on the resulting cluster.
"""

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from scheduler.state.change import Change

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.state.cluster import Cluster
    from scheduler.state.podindex import Placed


class Tracker(Protocol):
    """Long-lived state of a plugin family; `kinds` names further kinds to watch.

    A tracker with `follows` gets changes of those kinds alone; one with `passes_over(placed)` gets
    no changes of pods for which it returns True, which must follow from the pod's shape.
    `measure(meters)`, if defined, is called once to register gauges.
    """

    kinds: tuple[str, ...]

    def rebuild(self, cluster: "Cluster") -> None:
        """Rebuild all state from `cluster`."""

    def apply(self, change: Change) -> None:
        """Apply one change."""

    def columns(self) -> "Mapping[str, Any]":
        """Return the content by name, for invariants and dumps."""


class TrackerKey(NamedTuple):
    """The identity of a tracker: its class and its arguments, or a shared name.

    Classes of equal names in two modules are two classes.
    """

    kind: type[Tracker]
    arguments: tuple[Hashable, ...] = ()
    name: str = ""

    def __str__(self) -> str:
        listed = ", ".join(map(str, self.arguments))
        return self.name or f"{self.kind.__module__}.{self.kind.__qualname__}({listed})"

    def made(self) -> Tracker:
        """Return a new tracker of this kind, without any state."""
        return self.kind(*self.arguments)


def hears_of(tracker: Tracker, kind: str) -> bool:
    """Return whether a tracker follows changes of a kind."""
    return kind in getattr(tracker, "follows", (kind,))


def counts_such(tracker: Tracker, placed: "Placed") -> bool:
    """Return whether a tracker may count a pod of such a shape."""
    passes_over = getattr(tracker, "passes_over", None)
    return passes_over is None or not passes_over(placed)
