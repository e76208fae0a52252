"""`GroupSpec`: what a group asks for, in the one form that all sources are read into.

Rules by level have Sakkara's keys; what cannot be read holds the group with a text that names the
key. Numeric keys always bind, `type` is a wish unless `hard` stands beside it alone. Made by
scheduler.plugins.groups.sources, read by whoever plans, tells and evicts; pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from scheduler.base.errors import ObjectError
from scheduler.plugins.groups.inputs import (
    LARGEST_NUMBER,
    kind_of,
    known,
)

LARGEST_GROUP = 10_000
KEYS = ("type", "hard", "partitions", "min", "max", "factor")


class Constraint(msgspec.Struct, frozen=True):
    """The rule of one level; 0 stands for a number that is not given, `factor` 1 for any count."""

    type: Literal["pack", "spread"] = "pack"
    hard: bool = False
    partitions: int = 0
    min: int = 0
    max: int = 0
    factor: int = 1


class GroupSpec(msgspec.Struct, frozen=True):
    """A group, whatever described it.

    At least `size` members are placed together. `is_minimum` says that more may come: those that are
    there are placed in the same step as far as they fit, later ones into the units already used.
    `priority` None leaves it to the pods. `counts_alone` takes the group's priority for that of its
    pods, for an API server has admitted it; any other counts only as far as it is not above theirs.
    `key_label` names a node label whose values are the units of a tree of its own, "" the profile's tree.
    `is_ours` says that its members may be let go while it has never been whole. `goes_whole`: evicted
    together or not at all; with `may_shrink` those beyond the minimum may go alone.
    """

    namespace: str
    name: str
    size: int = 1
    priority: int | None = 0
    constraints: Mapping[str, Constraint] = {}
    source: str = ""
    is_minimum: bool = False
    counts_alone: bool = False
    key_label: str = ""
    may_evict: bool = True
    is_ours: bool = False
    goes_whole: bool = True
    may_shrink: bool = False
    has_classes: bool = False
    needs: Mapping[str, int] = {}
    hold_s: float = 0.0

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    def effective_priority(self, lowest: int) -> int:
        """Return the priority that counts for members of which `lowest` is the lowest."""
        if self.priority is None:
            return lowest
        return self.priority if self.counts_alone else min(self.priority, lowest)


def constraints(levels: Mapping[str, Any], where: str) -> dict[str, Constraint]:
    """Read the rules by level; whether the levels exist is checked against a topology."""
    return {level: _constraint(rule, f"{where}.{level}") for level, rule in levels.items()}


def check_levels(spec: GroupSpec, levels: tuple[str, ...], tree: str = "") -> None:
    """Check that every level with a rule is one of the topology's; ObjectError names the first.

    `tree` says where the topology comes from.
    """
    try:
        known(spec.constraints, levels, "data.constraints")
    except ObjectError as error:
        origin = f" of the tree by {tree}" if tree else ""
        text = (
            f"{error.message}{origin}; levels come from a ConfigMap with the label sakkara.topology, or "
            "from node labels by the argument topologyLabels of ClusterTopologyPlacementGroup, "
            "for example [zone, rack]"
        )
        raise ObjectError(text) from error


def _constraint(rule: Any, where: str) -> Constraint:
    if not isinstance(rule, dict):
        raise ObjectError(f"{where}: a JSON object is needed, not {kind_of(rule)}")
    known(rule, KEYS, where)
    kind = rule.get("type", "pack")
    if kind not in ("pack", "spread"):
        raise ObjectError(f'{where}.type: "pack" or "spread" is needed, not {kind!r:.60}')
    hard = rule.get("hard", False)
    if not isinstance(hard, bool):
        raise ObjectError(f"{where}.hard: true or false is needed, not {kind_of(hard)}")
    least, most = _count(rule, "min", where), _count(rule, "max", where)
    if least and most and least > most:
        raise ObjectError(f"{where}: min {least} is above max {most}")
    return Constraint(
        kind,
        hard,
        _count(rule, "partitions", where),
        least,
        most,
        _count(rule, "factor", where) or 1,
    )


def _count(rule: Mapping[str, Any], key: str, where: str) -> int:
    number = rule.get(key, 0)
    if isinstance(number, bool) or not isinstance(number, int):
        text = f"{where}.{key}: a whole number is needed, not {kind_of(number)}"
        raise ObjectError(text)
    if not 0 <= number <= LARGEST_NUMBER:
        raise ObjectError(f"{where}.{key}: {number} is not between 0 and {LARGEST_NUMBER}")
    return number
