"""`Sweep`: decides when to remove stale entries from a table, at amortized constant cost."""

from collections.abc import Callable
from typing import Any, TypeVar

K = TypeVar("K")

LEAST_KEPT = 256


class Sweep:
    """Removes stale entries whenever the table has twice as many entries as after the last sweep.

    In a table of more than `LEAST_KEPT` entries at most half are stale, and each entry is checked
    about twice.
    """

    def __init__(self) -> None:
        self._most = LEAST_KEPT

    def clear(self, table: dict[K, Any], is_there: Callable[[K], bool]) -> None:
        """Remove entries whose key is stale; do nothing while the table is small."""
        if len(table) <= self._most:
            return
        for key in [key for key in table if not is_there(key)]:
            del table[key]
        self._most = max(LEAST_KEPT, 2 * len(table))
