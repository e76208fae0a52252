"""Reduce a case while its difference stays: fewer pods, fewer objects.

Every step runs on the real cluster, because kube-scheduler's decision without an object is
otherwise unknown.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from tests.differential.case import Case

Differs = Callable[[Case], Awaitable[bool]]


async def shrunk(case: Case, differs: Differs) -> Case:
    """Return a case from which no object can be removed; `differs` runs one."""

    async def pods(kept: list[Any]) -> bool:
        return bool(kept) and await differs(Case(case.id, case.families, case.objects, kept))

    case = Case(case.id, case.families, case.objects, await _least(case.pods, pods))

    async def objects(kept: list[Any]) -> bool:
        return await differs(Case(case.id, case.families, kept, case.pods))

    return Case(case.id, case.families, await _least(case.objects, objects), case.pods)


async def _least(items: list[Any], still: Callable[[list[Any]], Awaitable[bool]]) -> list[Any]:
    """Remove halves, then quarters and so on, of the unneeded items."""
    size = max(1, len(items) // 2)
    while True:
        at = 0
        while at < len(items):
            kept = items[:at] + items[at + size :]
            if await still(kept):
                items = kept
            else:
                at += size
        if size == 1:
            return items
        size = max(1, size // 2)
