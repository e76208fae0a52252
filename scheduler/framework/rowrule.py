"""`RowRule`: how a plugin says that pods look the same to it, row by row."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeAlias

import msgspec

from scheduler.framework.nodes import Nodes

# From a row to whether it passes a filter, or to its score.
CellRule: TypeAlias = Callable[[int], int]


class RowRule(msgspec.Struct, frozen=True):
    """A plugin's answer to the pods of one spec, as far as it can be shared and kept.

    Pods with equal `key` get the same answer for the same nodes, whatever their shapes. Of a row it
    depends on its node and, if there is `cells`, on its allocatable and requested amounts;
    `cells(nodes)` then returns the answer for single rows, which holds for `nodes` and what becomes
    of their amounts. It is one that `filter` passes (1) or rejects (0), or the score of `score`.
    """

    key: Hashable
    cells: Callable[[Nodes], CellRule] | None = None
