"""What a group asks for: the group ConfigMap or a PodGroup → `GroupSpec`.

Keys and their meaning are Sakkara's; what cannot be read holds the group with a text that names the
key (D24). Numeric keys always bind, `type` is a wish unless `hard` stands beside it alone (D19).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from scheduler.base.errors import ObjectError
from scheduler.plugins.groups.inputs import (
    LARGEST_NUMBER,
    json_object,
    kind_of,
    known,
    parsed,
    whole_number,
)

GROUP_LABEL = "sakkara.group.name"
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
CONSTRAINTS_ANNOTATION = "sakkara.group/constraints"
DEFAULT_GROUP = "default-group"
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
    """A group as its owner wrote it; `priority` None leaves it to the pods.

    `is_minimum` says that more members than `size` may come; they are placed one by one.
    """

    namespace: str
    name: str
    size: int = 1
    priority: int | None = 0
    constraints: Mapping[str, Constraint] = {}
    source: str = ""
    is_minimum: bool = False

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"


def name_in(data: Mapping[str, str]) -> str:
    """Return the group's name in a group ConfigMap."""
    return data.get("name", "").strip() or DEFAULT_GROUP


def from_config_map(namespace: str, data: Mapping[str, str], source: str) -> GroupSpec:
    """Read a group ConfigMap; ObjectError names the key that is wrong."""
    size = whole_number(data, "size", 1, least=1)
    if size > LARGEST_GROUP:
        raise ObjectError(f"data.size: {size} is more than the largest group, {LARGEST_GROUP}")
    return GroupSpec(
        namespace,
        name_in(data),
        size,
        whole_number(data, "priority", 0, least=-LARGEST_NUMBER),
        constraints(json_object(data, "constraints"), "data.constraints"),
        source,
    )


def from_pod_group(
    namespace: str, name: str, min_member: int, annotations: Mapping[str, str]
) -> GroupSpec:
    """Read a PodGroup: at least `min_member` pods, placed by the rules of an annotation."""
    if not 1 <= min_member <= LARGEST_GROUP:
        raise ObjectError(f"spec.minMember: {min_member} is not between 1 and {LARGEST_GROUP}")
    rules: dict[str, Constraint] = {}
    if CONSTRAINTS_ANNOTATION in annotations:
        where = f"metadata.annotations[{CONSTRAINTS_ANNOTATION}]"
        try:
            found = parsed(annotations, CONSTRAINTS_ANNOTATION)
        except ObjectError as error:
            raise ObjectError(error.message.replace("data.", "metadata.annotations.")) from error
        if not isinstance(found, dict):
            raise ObjectError(f"{where}: a JSON object is needed, not {kind_of(found)}")
        rules = constraints(found, where)
    return GroupSpec(
        namespace, name, min_member, None, rules, f"PodGroup {namespace}/{name}", is_minimum=True
    )


def constraints(levels: Mapping[str, Any], where: str) -> dict[str, Constraint]:
    """Read the rules by level; whether the levels exist is checked against a topology."""
    return {level: _constraint(rule, f"{where}.{level}") for level, rule in levels.items()}


def check_levels(spec: GroupSpec, levels: tuple[str, ...]) -> None:
    """Check that every level with a rule is one of the topology's; ObjectError names the first."""
    known(spec.constraints, levels, "data.constraints")


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
