"""The message that states why no node fits, in kube-scheduler's format.

Used for the pod's message and for the part of it that preemption adds.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.framework.status import Rejection


def head(node_count: int) -> str:
    """Return the beginning of the message."""
    return f"0/{node_count} nodes are available:"


class ReasonCounts:
    """How many nodes have which reason, and from which plugin.

    A node with several reasons counts in each.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._plugins: dict[str, None] = {}

    @property
    def plugins(self) -> tuple[str, ...]:
        """Return the plugins whose rejections were counted, in order."""
        return tuple(self._plugins)

    def add(self, text: str, nodes: int) -> None:
        """Count nodes for a reason; 0 adds nothing."""
        if nodes:
            self._counts[text] = self._counts.get(text, 0) + nodes

    def include(self, other: ReasonCounts) -> None:
        """Add the counts of another instance."""
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
        """Return the whole message; reasons are sorted as texts, their numbers included.

        Without any reason (an extender may filter nodes without a message) only the beginning
        remains.
        """
        parts = sorted(f"{nodes} {text}" for text, nodes in self._counts.items())
        if not parts:
            return head(node_count)
        return f"{head(node_count)} {', '.join(parts)}."
