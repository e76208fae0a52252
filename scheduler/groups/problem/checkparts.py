"""Checks of the parts of a group: their sizes, their nesting, and the unit that each is in.

Part of scheduler.groups.problem.checker. It checks each placed part by itself and shares no code
with the search.
"""

from collections import Counter
from collections.abc import Sequence

from scheduler.groups.problem import checklevels
from scheduler.groups.problem.checklevels import Path
from scheduler.groups.problem.classes import PodClass
from scheduler.groups.problem.parts import ROOT, PlacedPart
from scheduler.groups.problem.roles import GroupProblem


def problems(
    group: GroupProblem, counts: Sequence[Sequence[int]], pieces: Sequence[PlacedPart] | None
) -> list[str]:
    """Return the violations of the rules of parts as texts. `counts` is by role and leaf."""
    if pieces is None:
        return ["no parts could have these pods"]
    found = _numbers(group, pieces)
    dealt: Counter[tuple[int, int]] = Counter()
    for piece in pieces:
        for role, leaf, pods in piece.pods:
            dealt[role, leaf] += pods
    there = {
        (role, leaf): pods
        for role, row in enumerate(counts)
        for leaf, pods in enumerate(row)
        if pods
    }
    if dealt != there:
        found.append("the parts do not have the pods that are placed")
    for at, piece in enumerate(pieces):
        found += _of_piece(group, pieces, at)
        for one in group.classes:
            if one.part == piece.part:
                found += _of_class(group, one, pieces, at)
    return found


def _numbers(group: GroupProblem, pieces: Sequence[PlacedPart]) -> list[str]:
    """Return the parts with too many copies, in a wrong part, or left out with bound pods, as
    texts.
    """
    found = []
    roots = [piece for piece in pieces if piece.parent == ROOT]
    if len(roots) != 1 or roots[0].part != 0:
        found.append(f"{len(roots)} parts are in no other one")
    for at, piece in enumerate(pieces):
        around = ROOT if piece.parent == ROOT else pieces[piece.parent].part
        if piece.parent >= at or around != group.parts[piece.part].parent:
            found.append(f"{group.parts[piece.part].name} is in the wrong part")
    many = Counter((piece.parent, piece.part) for piece in pieces)
    for (_, number), count in many.items():
        if count > group.parts[number].count:
            found.append(f"{count} parts {group.parts[number].name}, there are fewer")
    there = Counter(piece.part for piece in pieces)
    found += [
        f"{one.name} is left out though pods of it stand"
        for number, one in enumerate(group.parts)
        if any(one.fixed) and there[number] != 1
    ]
    return found


def _of_piece(group: GroupProblem, pieces: Sequence[PlacedPart], at: int) -> list[str]:
    piece, found = pieces[at], []
    one = group.parts[piece.part]
    own = [other for other in pieces if other.parent == at]
    every = _inside(pieces, at)
    is_fixed = any(any(group.parts[pieces[each].part].fixed) for each in every)
    if any(each.parent == piece.part for each in group.parts):
        if piece.pods:
            found.append(f"{one.name} has pods beside its parts")
        if not own or (len(own) < one.minimum and not is_fixed):
            found.append(f"{one.name} has {len(own)} parts, {one.minimum} are needed")
    else:
        of_role = Counter[int]()
        for role, _, pods in piece.pods:
            of_role[role] += pods
        sizes = dict(zip(one.roles, one.sizes, strict=True))
        if any(pods > sizes.get(role, 0) for role, pods in of_role.items()):
            found.append(f"{one.name} has more pods of a role than are its own")
        new, fixed = sum(of_role.values()), sum(one.fixed)
        there = Counter({leaf: number for leaf, number in enumerate(one.fixed) if number})
        for _, leaf, number in piece.pods:
            there[leaf] += number
        if one.apart >= 0 and any(n > 1 for n in _by_unit(group, there, one.apart + 1).values()):
            found.append(f"{one.name} has several pods on a unit of {group.levels[one.apart].name}")
        if new + fixed < one.minimum and not (fixed and not new):
            found.append(f"{one.name} has {new + fixed} pods, {one.minimum} are needed")
    if one.level >= 0 and len(_units(group, pieces, every, one.level + 1)) > 1:
        found.append(f"{one.name} is in several units of {group.levels[one.level].name}")
    return found


def _of_class(
    group: GroupProblem, one: PodClass, pieces: Sequence[PlacedPart], at: int
) -> list[str]:
    """Return the violations of the rules of a class by the pods of one placed part."""
    every = [pieces[each] for each in _inside(pieces, at)]
    pods: Counter[int] = Counter()
    for piece in every:
        for _, leaf, number in piece.pods:
            pods[leaf] += number
        for leaf, number in enumerate(group.parts[piece.part].fixed):
            pods[leaf] += number
    found = []
    if any(role not in one.roles for piece in every for role, _, _ in piece.pods):
        found.append(f"{one.name} has pods that its rules do not speak of")
    for own in one.rules:
        above, used = (_by_unit(group, pods, own.level + more) for more in (0, 1))
        name = f"{group.levels[own.level].name} of {one.name}"
        found += checklevels.level_problems(name, own.rule, used, above)
    return found


def _by_unit(group: GroupProblem, pods: Counter[int], level: int) -> dict[Path, int]:
    """Return the pods by used unit of a level; level 0 is the root."""
    depth, found = len(group.levels), Counter[Path]()
    for leaf, number in pods.items():
        path = group.paths[leaf]
        if number:
            found[(path + path[-1:] * (depth - len(path)))[:level]] += number
    return dict(found)


def _inside(pieces: Sequence[PlacedPart], at: int) -> list[int]:
    """Return the index of a placed part and those of all placed parts inside it."""
    found = {at: None}
    for number in range(at + 1, len(pieces)):
        if pieces[number].parent in found:
            found[number] = None
    return list(found)


def _units(
    group: GroupProblem, pieces: Sequence[PlacedPart], those: Sequence[int], level: int
) -> set[tuple[str, ...]]:
    leaves = {leaf for each in those for _, leaf, _ in pieces[each].pods}
    for each in those:
        fixed = group.parts[pieces[each].part].fixed
        leaves.update(leaf for leaf, pods in enumerate(fixed) if pods)
    depth = len(group.levels)
    return {
        (path + path[-1:] * (depth - len(path)))[:level]
        for path in (group.paths[leaf] for leaf in leaves)
    }
