"""`Touched`: rows that changed since a mark, so that only these are recomputed.

A newly placed pod changes one row; a column of scores over 5,000 rows then needs one new cell.
"""

KEPT = 4096


class Touched:
    """A log of rows; marks are valid for one log only.

    `mark` is the present moment, for `since`: the number of recorded rows.
    """

    __slots__ = ("_rows", "mark")

    def __init__(self) -> None:
        self._rows: list[int] = []
        self.mark = 0

    def add(self, row: int) -> None:
        """Record that a row changed."""
        self.mark += 1
        self._rows.append(row)
        if len(self._rows) > 2 * KEPT:
            del self._rows[:KEPT]

    def since(self, mark: int) -> list[int] | None:
        """Return the rows that changed after `mark`, each once; None if the log does not go back
        that far.
        """
        start = len(self._rows) - (self.mark - mark)
        if start < 0:
            return None
        rows = self._rows[start:]
        return rows if len(rows) < 2 else list(dict.fromkeys(rows))
