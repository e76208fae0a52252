"""The plugins of this installation: ours and those that other packages offer."""

from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE


def registry() -> Registry:
    """Return a registry with all of them; ConfigError when two share a name."""
    found = Registry(IN_TREE)
    found.load_entry_points()
    return found
