"""Completion indexes of Indexed Jobs: read from a pod, and written in a status."""

from collections.abc import Iterable

from scheduler.controlplane.jobs import COMPLETION_INDEX
from scheduler.sandbox.api.status import Object


def of_pod(pod: Object) -> int:
    """Return the pod's index, -1 when it has none."""
    text = (pod["metadata"].get("annotations") or {}).get(COMPLETION_INDEX, "")
    return int(text) if text.isdecimal() else -1


def written(numbers: Iterable[int]) -> str:
    """Indexes as a status shows them: `0,2-5`."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)
