"""A table of text for people. The command line aligns and prints it."""

from collections.abc import Sequence
from typing import NamedTuple


class TextTable(NamedTuple):
    """Titles and rows; `heading` is printed above the table when it is not empty.

    A narrow terminal's table goes without the columns `optional`, the first of them first.
    """

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    heading: str = ""
    optional: Sequence[str] = ()
