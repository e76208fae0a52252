"""The variables of a group's pods on the leaves, as the models of classes and parts use them.

Loaded only in the solver process.
"""

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver.tree import Tree


class LeafVariables(NamedTuple):
    """x[role, leaf], the pods of a role on a leaf; only for leaves where the role fits."""

    cp: cp_model.CpModel
    group: GroupProblem
    tree: Tree
    x: Mapping[tuple[int, int], Any]

    def under(self, level: int) -> list[list[int]]:
        """Return the leaves of each unit of a level; level 0 is the root."""
        leaves: list[int] = self.tree.leaf.tolist()
        bounds = np.arange(len(leaves) + 1)
        for each in range(self.tree.depth - 1, level - 1, -1):
            bounds = bounds[self.tree.starts[each]]
        return [leaves[start:end] for start, end in itertools.pairwise(bounds.tolist())]


class LeafModel:
    """Base class of a model over leaf variables."""

    def __init__(self, variables: LeafVariables) -> None:
        self._cp, self._group, self._x = variables.cp, variables.group, variables.x
        self._leaves, self._tree = variables.under, variables.tree
