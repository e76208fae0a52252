"""Network costs of placements, computed the same way for all profiles."""

from scheduler.base.release import DEFAULT
from scheduler.engine.engine import Engine
from scheduler.engine.handle import EngineHandle
from scheduler.plugins.network import Bill


def network_bill(engine: Engine) -> Bill:
    """Return a function object that prices the engine's current cluster."""
    plugins = [p for profile in engine.profiles.values() for p in profile.plugins.values()]
    # A handle of its own: the engine may not have these trackers.
    return Bill(
        EngineHandle(
            engine.cluster,
            engine.settings.feature_gates,
            release=engine.settings.release or DEFAULT,
        ),
        plugins,
    )
