"""The variables of a group's pods on the leaves of its tree, for models of classes and parts.

Loaded only where solving happens.
"""

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from ortools.sat.python import cp_model

from scheduler.groups.problem.roles import GroupProblem
from scheduler.groups.solver.tree import Tree


class LeafVariables(NamedTuple):
    """x[role, leaf]: the pods of a role on a leaf, where the role fits; the tree has the leaves."""

    cp: cp_model.CpModel
    group: GroupProblem
    tree: Tree
    x: Mapping[tuple[int, int], Any]

    def under(self, level: int) -> list[list[int]]:
        """Return the leaves in each unit of a level; levels count from 1, 0 is the root."""
        leaves: list[int] = self.tree.leaf.tolist()
        bounds = np.arange(len(leaves) + 1)
        for each in range(self.tree.depth - 1, level - 1, -1):
            bounds = bounds[self.tree.starts[each]]
        return [leaves[start:end] for start, end in itertools.pairwise(bounds.tolist())]


class LeafModel:
    """The base of a model over these variables: what it reads of them at each step."""

    def __init__(self, variables: LeafVariables) -> None:
        self._cp, self._group, self._x = variables.cp, variables.group, variables.x
        self._leaves, self._tree = variables.under, variables.tree
