"""`Touched`: which rows changed since a moment, so that what is dear to work out is redone for them alone.

One pod landing changes one row; a column of scores over 5,000 rows then needs one new cell.
"""

KEPT = 4096


class Touched:
    """A log of rows; a mark is a position in it. Two logs have nothing to do with each other."""

    __slots__ = ("_dropped", "_rows")

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._dropped = 0

    @property
    def mark(self) -> int:
        """Return the present moment, for `since`."""
        return self._dropped + len(self._rows)

    def add(self, row: int) -> None:
        """Note that a row changed."""
        self._rows.append(row)
        if len(self._rows) > 2 * KEPT:
            del self._rows[:KEPT]
            self._dropped += KEPT

    def since(self, mark: int) -> list[int] | None:
        """Return the rows that changed after `mark`, each once; None if that is not known any more."""
        start = mark - self._dropped
        if start < 0:
            return None
        rows = self._rows[start:]
        return rows if len(rows) < 2 else list(dict.fromkeys(rows))
