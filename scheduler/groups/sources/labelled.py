"""Topology constraints that name node labels: one value required, few preferred."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from scheduler.base.errors import ObjectError
from scheduler.groups.description.rules import LevelConstraint
from scheduler.groups.description.spec import GroupSpec, LabelRule
from scheduler.groups.sources import annotated


def placed_by(
    spec: GroupSpec, required: str, preferred: str, where: str, annotations: Mapping[str, str]
) -> GroupSpec:
    """Return a group that is placed by these node labels; ObjectError beside rules for a tree.

    A required label alone is a tree of one level, which needs no object that describes it. A
    preferred one is a level of a Topology of Kueue.
    """
    if not required and not preferred:
        return spec
    excluded(where, annotations, annotated.OF_TREES)
    if preferred:
        return replace(spec, labels=LabelRule(required, preferred))
    rule = {required: LevelConstraint("pack", hard=True)}
    return replace(spec, constraints=rule, key_label=required)


def excluded(where: str, annotations: Mapping[str, str], names: Iterable[str]) -> None:
    """Raise ObjectError if an annotation states what the field `where` states."""
    beside = next((one for one in names if one in annotations), "")
    if beside:
        raise ObjectError(f"{where} and the annotation {beside} exclude each other")
