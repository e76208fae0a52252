"""Small plugins for the tests of configuration; none of them is ever run."""

from collections.abc import Iterator

from scheduler.framework.args import Args, NoArgs
from scheduler.framework.plugin import Plugin
from scheduler.framework.registry import Registry


class FitArgs(Args):
    """Arguments with every kind of value."""

    ignored_resources: tuple[str, ...] = ()
    strategy: str = "Least"
    limit: int = 3
    ratio: float | None = None

    def validate(self) -> Iterator[tuple[str, str]]:
        """Refuse a limit below zero."""
        if self.limit < 0:
            yield "limit", f"Invalid value: {self.limit}: must not be negative"


class Filtering(Plugin[FitArgs]):
    """Filters with arguments."""

    name = "Filtering"

    def filter(self, cycle, nodes):
        """Reject nothing."""


class NodeResourcesFit(Plugin[FitArgs]):
    """Has the name of the plugin whose arguments are checked at the start."""

    def pre_filter(self, cycle, nodes):
        """Return no state."""

    def filter(self, cycle, nodes, state):
        """Reject nothing."""

    def score(self, cycle, nodes, state):
        """Score nothing."""


class NodeAffinity(Plugin[NoArgs]):
    """A default plugin with a weight."""

    def filter(self, cycle, nodes):
        """Reject nothing."""

    def score(self, cycle, nodes):
        """Score nothing."""


class ImageLocality(Plugin[NoArgs]):
    """A default plugin that only scores."""

    def score(self, cycle, nodes):
        """Score nothing."""


class Extra(Plugin[NoArgs]):
    """A plugin that is not a default."""

    def filter(self, cycle, nodes):
        """Reject nothing."""

    def score(self, cycle, nodes):
        """Score nothing."""


class PrioritySort(Plugin[NoArgs]):
    """A queue sort."""

    def less(self, first, second):
        """Return False."""
        return False


class OtherSort(Plugin[NoArgs]):
    """Another queue sort."""

    def less(self, first, second):
        """Return False."""
        return False


class DefaultBinder(Plugin[NoArgs]):
    """Binds."""

    def bind(self, cycle, node):
        """Return without binding."""


def registry():
    """Return a registry of all of them."""
    return Registry(
        (
            PrioritySort,
            NodeResourcesFit,
            NodeAffinity,
            ImageLocality,
            DefaultBinder,
            Filtering,
            Extra,
            OtherSort,
        )
    )
