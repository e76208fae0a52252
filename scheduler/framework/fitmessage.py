"""The sentence that tells why no node fits, in kube-scheduler's words.

Used for the pod's message and, by preemption, for its own part of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.framework.answers import Rejection


def head(node_count: int) -> str:
    """Return how the sentence begins."""
    return f"0/{node_count} nodes are available:"


class ReasonCounts:
    """How many nodes have which reason, and by whom; a node with several reasons counts in each."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._plugins: dict[str, None] = {}

    @property
    def plugins(self) -> tuple[str, ...]:
        """Return the plugins whose rejections were counted, in order."""
        return tuple(self._plugins)

    def add(self, text: str, nodes: int) -> None:
        """Count nodes for a reason; none are passed over."""
        if nodes:
            self._counts[text] = self._counts.get(text, 0) + nodes

    def include(self, other: ReasonCounts) -> None:
        """Count what another has counted."""
        for text, nodes in other._counts.items():
            self.add(text, nodes)
        self._plugins.update(other._plugins)

    def add_rejections(self, rejections: Iterable[Rejection]) -> None:
        """Count the rows that plugins rejected."""
        for rejection in rejections:
            self._plugins[rejection.plugin] = None
            for text, nodes in rejection.rejected.histogram(rejection.rows):
                self.add(text, nodes)

    def sentence(self, node_count: int) -> str:
        """Return the whole sentence; reasons are sorted as texts, their numbers included.

        Without any reason (an extender may leave nodes out without a word) only its head is left.
        """
        parts = sorted(f"{nodes} {text}" for text, nodes in self._counts.items())
        if not parts:
            return head(node_count)
        return f"{head(node_count)} {', '.join(parts)}."
