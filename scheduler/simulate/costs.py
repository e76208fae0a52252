"""Network costs of placements, computed the same way for all profiles."""

from scheduler.engine.engine import Engine
from scheduler.plugins.network import Bill


def network_bill(engine: Engine) -> Bill:
    """Return a function object that prices the engine's current cluster."""
    # A handle of its own: the engine may not have these trackers.
    return Bill(engine.new_handle(), engine.view.plugins())
