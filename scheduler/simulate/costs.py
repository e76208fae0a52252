"""What placements cost on the network, measured alike whatever the profiles run."""

from scheduler.base.release import DEFAULT
from scheduler.engine.engine import Engine
from scheduler.engine.handle import EngineHandle
from scheduler.plugins.network import Bill


def network_bill(engine: Engine) -> Bill:
    """Return what puts a price on the engine's cluster as it is now."""
    plugins = [p for profile in engine.profiles.values() for p in profile.plugins.values()]
    # A handle of its own: the engine's trackers are its own business, and may not be there.
    return Bill(
        EngineHandle(
            engine.cluster,
            engine.settings.feature_gates,
            release=engine.settings.release or DEFAULT,
        ),
        plugins,
    )
