"""Conditions of the kinds that operators keep: found, put in their place, written out. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from scheduler.objects.meta import Condition

SHOWN = 3  # faults that a message names before it only counts them


def condition_of(conditions: tuple[Condition, ...], type_: str) -> Condition | None:
    """Return the condition of a type."""
    return next((one for one in conditions if one.type == type_), None)


def with_condition(
    conditions: tuple[Condition, ...], new: Condition, now: str
) -> tuple[Condition, ...]:
    """Replace the condition of the same type, or append it; its time moves on change."""
    old = condition_of(conditions, new.type)
    since = old.last_transition_time if old is not None and old.status == new.status else now
    new = msgspec.structs.replace(new, last_transition_time=since or now)
    if old is None:
        return (*conditions, new)
    return tuple(new if one.type == new.type else one for one in conditions)


def listed(texts: Sequence[str]) -> str:
    """Return the first few of some texts, and the number of the others."""
    more = len(texts) - SHOWN
    return "; ".join(texts[:SHOWN]) + (f"; and {more} more" if more > 0 else "")


def document(condition: Condition) -> dict[str, Any]:
    """Return a condition with all fields: the schema requires a reason and a message even when
    empty.
    """
    written: dict[str, Any] = {
        "type": condition.type,
        "status": condition.status,
        "lastTransitionTime": condition.last_transition_time,
        "reason": condition.reason,
        "message": condition.message,
    }
    if condition.observed_generation:
        written["observedGeneration"] = condition.observed_generation
    return written
