"""Extenders in a simulation, which has no network.

Placing a pod that an extender might reject would be a wrong result. So a pod that an extender
manages is an error, unless the extender may be ignored. An extender that only binds does not affect
the choice of nodes.
"""

from collections.abc import Iterable, Sequence

from scheduler.base.errors import ConfigError
from scheduler.config.model import Extender
from scheduler.engine.extender.extenders import ConfiguredExtender as EngineExtender
from scheduler.engine.extender.extenders import extenders_of
from scheduler.objects.pod import Pod


def skipped_extenders(
    configured: Sequence[Extender], pods: Iterable[Pod] | None = None
) -> tuple[str, ...]:
    """Return notices of extenders left out for these pods; ConfigError for a required one.

    None means any future pod.
    """
    if not configured:
        return ()
    waiting = None if pods is None else tuple(pods)
    notices = []
    for extender in extenders_of(configured):
        about = _first(extender, waiting)
        if about is None:
            continue
        if not extender.ignorable:
            raise ConfigError(
                f"the extender {extender.name} cannot be asked here{about}; "
                "take it out, or say ignorable: true to go on without it"
            )
        notices.append(f"the extender {extender.name} is not asked: it may be ignored")
    return tuple(notices)


def _first(extender: EngineExtender, pods: tuple[Pod, ...] | None) -> str | None:
    """Return the first pod that an extender manages, as text; None without one."""
    if not (extender.filters or extender.prioritizes or extender.preempts):
        return None
    if pods is None:
        return ""
    found = next((pod for pod in pods if extender.is_interested(pod)), None)
    return None if found is None else f" about pod {found.key}"
