"""What is wanted, one class each: the stages of the objective as linear expressions with known
bounds.

Stages are minimised one after the other from the top level down; a finished one is frozen. `bound`
is what can be said without solving; it lets a stage end as soon as it is reached.
"""

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from scheduler.groups.solver.tree import Ints, Tree

if TYPE_CHECKING:
    from scheduler.groups.solver.cpsat.variables import Variables

MANY_UNITS = 100  # above this, squares of inner counts are not written as products
MANY_ROWS = 20_000  # above this, tangents are added when an answer asks for them


class ObjectiveTerm(Protocol):
    """What is measured where."""

    @property
    def level(self) -> int: ...
    @property
    def measure(self) -> str: ...


class Objective(Protocol):
    """One stage."""

    level: int
    measure: str

    def expression(self, model: "Variables") -> Any | None:
        """Return what is minimised, None when the stage is left to its bound."""


class UsedUnits:
    """Few used units of a level."""

    measure = "units"

    def __init__(self, level: int) -> None:
        self.level = level

    def expression(self, model: "Variables") -> Any:
        """Return the number of used units."""
        if self.level == model.tree.depth:
            return sum(one.used for one in model.classes)
        return sum(model.used[self.level])


class Large:
    """Large counts on the used units of a level: the negative sum of squares."""

    measure = "large"

    def __init__(self, level: int) -> None:
        self.level = level

    def expression(self, model: "Variables") -> Any | None:
        """Return minus the sum of squares, as products for inner units; None when they are too
        many.
        """
        tree = model.tree
        if self.level == tree.depth:
            return sum(-k * k * var for one in model.classes for k, var in one.taken.items())
        if tree.units(self.level) > MANY_UNITS:
            return None
        squares = []
        for unit, pods in enumerate(model.pods[self.level]):
            most = int(tree.room[self.level][unit])
            square = model.cp.new_int_var(0, most * most, f"s{self.level}_{unit}")
            model.cp.add_multiplication_equality(square, [pods, pods])
            squares.append(square)
        return -sum(squares)


class Even:
    """Even counts on the units of a level: the sum of squares, by tangents for inner units."""

    measure = "squares"

    def __init__(self, level: int) -> None:
        self.level = level
        self._squares: list[Any] = []

    def expression(self, model: "Variables") -> Any:
        """Return the sum of squares, or what stands above its tangents."""
        tree, level = model.tree, self.level
        if level == tree.depth:
            return sum(k * k * var for one in model.classes for k, var in one.taken.items())
        rooms = tree.room[level].tolist()
        for unit, room in enumerate(rooms):
            self._squares.append(model.cp.new_int_var(0, room * room, f"q{level}_{unit}"))
            points = range(room) if sum(rooms) <= MANY_ROWS else self._first(model, room)
            for k in points:
                self._tangent(model, unit, k)
        return sum(self._squares)

    def refine(self, model: "Variables", counts: Ints) -> bool:
        """Add the tangents on both sides of each count; False when the expression was exact."""
        if self.level == model.tree.depth or int(model.tree.room[self.level].sum()) <= MANY_ROWS:
            return False
        for unit in np.flatnonzero(counts).tolist():
            for k in (int(counts[unit]) - 1, int(counts[unit])):
                self._tangent(model, unit, k)
        return True

    def _first(self, model: "Variables", room: int) -> list[int]:
        """Return where to touch at first: at 0 and around an even share."""
        units = max(1, int((model.tree.room[self.level] > 0).sum()))
        share = min(room - 1, model.tree.size // units)
        return sorted({0, *range(max(0, share - 2), min(room, share + 3))})

    def _tangent(self, model: "Variables", unit: int, k: int) -> None:
        """Perspective form: the constant counts only for a used unit."""
        pods, used = model.pods[self.level][unit], model.used[self.level][unit]
        model.cp.add(self._squares[unit] >= (2 * k + 1) * pods - k * (k + 1) * used)


class LeftOut:
    """Few pods of an elastic group that are not placed."""

    measure = "leftOut"
    level = 0

    def expression(self, model: "Variables") -> Any:
        """Return how many of the group's pods are not placed."""
        return model.tree.size - model.pods[0][0]


def stages(tree: Tree) -> list[Objective]:
    """Return the stages of all levels, the most important first."""
    found: list[Objective] = []
    is_elastic = tree.least < tree.size
    if is_elastic and not tree.levels_first:
        found.append(LeftOut())
    for level in range(1, tree.depth + 1):
        if tree.rule(level).kind == "pack":
            found += [UsedUnits(level), Large(level)]
        else:
            found.append(Even(level))
    if is_elastic and tree.levels_first:
        found.append(LeftOut())
    return found


def narrow(model: "Variables") -> None:
    """Limit the top level's counts to the water level, where nothing but room decides about
    them.
    """
    tree = model.tree
    if tree.least < tree.size:
        return
    plain = not any(rule.has_numbers or rule.is_hard_pack for rule in tree.rules)
    if tree.depth < 2 or not plain or tree.rule(1).kind != "spread" or model.instance.domains:
        return
    if tree.held.any() or int(tree.room[1].sum()) < tree.size:
        return
    level = 0
    while int(np.minimum(tree.room[1], level + 1).sum()) <= tree.size and level < tree.size:
        level += 1
    for pods, room in zip(model.pods[1], tree.room[1].tolist(), strict=True):
        model.cp.add(pods >= min(room, level))
        model.cp.add(pods <= min(room, level + 1))


def bound(tree: Tree, stage: ObjectiveTerm) -> int:
    """Return a lower limit of a stage that follows from the room alone."""
    level = stage.level
    if stage.measure == "leftOut":
        return 0
    room = np.sort(tree.room[level])[::-1]
    if stage.measure == "units":
        reach = np.searchsorted(np.cumsum(room), tree.least) + 1
        return max(int(reach), tree.rule(level).units_per_parent, 1)
    if stage.measure == "large":
        before = np.concatenate(([0], np.cumsum(room)[:-1]))
        filled = np.clip(tree.size - before, 0, room)
        return -int((filled * filled).sum())
    parts = tree.rule(level).partitions if level == 1 else 0
    parts = parts or int((room > 0).sum())
    share, rest = divmod(tree.least, max(1, parts))
    return rest * (share + 1) ** 2 + (parts - rest) * share**2
