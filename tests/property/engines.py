"""The plugins of the tree, the profiles of the default configuration, and an engine with both."""

from scheduler.config import default_config
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE

REGISTRY = Registry(IN_TREE)
PROFILES = default_config(REGISTRY).profiles


def build() -> Engine:
    """Return an engine as `trellis run` makes it without a file."""
    return Engine(PROFILES, REGISTRY)
