"""A table of text for people. The command line aligns and prints it."""

from collections.abc import Sequence
from typing import NamedTuple


class TextTable(NamedTuple):
    """Titles and rows; `heading` is printed above the table when it is not empty."""

    titles: Sequence[str]
    rows: Sequence[Sequence[str]]
    heading: str = ""
