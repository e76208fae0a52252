"""Roles of members: head and workers, launcher and ranks, prefill and decode.

All sources use the same keys: `classes` (sizes and rules for levels by role), `between` (rules
between roles), `traffic` with `costs` (which roles exchange traffic, and its cost by level),
`class-label`. A member's role is the value of a label. Pure; an invalid value blocks the group.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

import msgspec
from msgspec.structs import replace

from scheduler.base.errors import ObjectError
from scheduler.groups.description.rules import LevelConstraint, constraints
from scheduler.groups.problem.classes import MOST_CLASSES, Relation
from scheduler.groups.sources.inputs import (
    MOST_LEVELS,
    check_between,
    check_count,
    json_number,
    json_object,
    kind_of,
    known,
    parsed,
)
from scheduler.objects.pod import Pod

KEYS = ("classes", "between", "traffic", "costs", "class-label")
PREFIX = "sakkara.group/"
ANNOTATIONS = tuple(f"{PREFIX}{key}" for key in KEYS)
MOST_RULES = 64
LARGEST_WEIGHT = 1_000
LEADER, WORKER = "leader", "worker"
# Labels whose value is a member's role in its workload; the first one that a pod carries counts:
# ours, Ray's, Kubeflow's (also MPI), JobSet's, Volcano's.
LABELS = (
    "sakkara.group.class",
    "ray.io/node-type",
    "training.kubeflow.org/replica-type",
    "training.kubeflow.org/job-role",
    "jobset.sigs.k8s.io/replicatedjob-name",
    "volcano.sh/task-spec",
)
# LeaderWorkerSet numbers its pods; the leader is number 0.
LWS_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"


class ClassSpec(msgspec.Struct, frozen=True):
    """One role; 0 for a number that is not given."""

    name: str
    min: int = 0
    max: int = 0
    constraints: Mapping[str, LevelConstraint] = {}


class BetweenSpec(msgspec.Struct, frozen=True):
    """A rule between two classes at a level, by names; the relations are those of the solver."""

    rule: Relation
    first: str
    second: str
    level: str


class TrafficSpec(msgspec.Struct, frozen=True):
    """How much traffic each pod of one class has with each pod of another."""

    first: str
    second: str
    weight: int


class LimitSpec(msgspec.Struct, frozen=True):
    """The maximum cost of the path from any pod of one class to any pod of another."""

    first: str
    second: str
    most: int


class FlowSpec(msgspec.Struct, frozen=True):
    """The bandwidth that each pod of one class sends to all pods of another, in bit/s."""

    first: str
    second: str
    amount: int


class ClassesSpec(msgspec.Struct, frozen=True):
    """All rules of a group about its roles; `costs` by level is empty where each level counts 1.

    `limits` and `flows` are of groups that are placed by network costs.
    """

    classes: tuple[ClassSpec, ...]
    between: tuple[BetweenSpec, ...] = ()
    traffic: tuple[TrafficSpec, ...] = ()
    costs: Mapping[str, int] = {}
    label: str = ""
    limits: tuple[LimitSpec, ...] = ()
    flows: tuple[FlowSpec, ...] = ()

    @property
    def levels(self) -> tuple[str, ...]:
        """Return the levels that have a rule, each once."""
        own = (level for one in self.classes for level in one.constraints)
        return tuple(dict.fromkeys((*own, *(one.level for one in self.between), *self.costs)))

    def of(self, pod: Pod) -> str:
        """Return the name of a member's class, '' if it is in none of these."""
        name = class_of(pod, self.label)
        return name if any(name == one.name for one in self.classes) else ""

    def less(self, finished: Iterable[Pod]) -> "ClassesSpec":
        """Return this spec with the minimum of each class reduced by its finished members."""
        done = Counter(map(self.of, finished))
        return self._with_min({one.name: max(0, one.min - done[one.name]) for one in self.classes})

    def at_most(self, members: Iterable[Pod]) -> "ClassesSpec":
        """Return this spec with the minimum of each class at most its number of `members`."""
        there = Counter(map(self.of, members))
        return self._with_min({one.name: min(one.min, there[one.name]) for one in self.classes})

    def _with_min(self, least: Mapping[str, int]) -> "ClassesSpec":
        classes = tuple(replace(one, min=least[one.name]) for one in self.classes)
        return replace(self, classes=classes)

    def lacking(self, pods: Iterable[Pod]) -> str:
        """Return which class has fewer pods than it needs, or an empty text."""
        found = [self.of(pod) for pod in pods]
        for one in self.classes:
            there = found.count(one.name)
            if there < one.min:
                return f"its class {one.name} has {there} members, at least {one.min} are needed"
        return ""


class _Between(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rule: Relation
    classes: tuple[str, str]
    level: str


class _Traffic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    between: tuple[str, str]
    weight: int = 1


class _Class(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    min: int = 0
    max: int = 0
    constraints: dict[str, Any] = {}


def class_of(pod: Pod, label: str = "") -> str:
    """Return a member's class, from this label or else from the first known one it carries."""
    labels = pod.metadata.labels
    if label:
        return labels.get(label, "")
    name = next((labels[one] for one in LABELS if labels.get(one)), "")
    if name or LWS_INDEX not in labels:
        return name
    return LEADER if labels[LWS_INDEX] == "0" else WORKER


def read(data: Mapping[str, str], largest: int) -> ClassesSpec | None:
    """Return the classes in a group's keys, None without any; ObjectError names the invalid key.

    `largest` is the largest valid number of pods in a class.
    """
    if "classes" not in data:
        alone = next((key for key in KEYS if key in data), None)
        if alone is not None:
            raise ObjectError(f"data.{alone} says something of classes, data.classes is missing")
        return None
    found = json_object(data, "classes")
    if not 1 <= len(found) <= MOST_CLASSES:
        raise ObjectError(f"data.classes: {len(found)} are not between 1 and {MOST_CLASSES}")
    classes = tuple(_class(name, one, largest) for name, one in found.items())
    names = tuple(one.name for one in classes)
    costs = {} if "costs" not in data else json_object(data, "costs")
    check_count(costs, MOST_LEVELS, "data.costs", "levels")
    for level, cost in costs.items():
        json_number(cost, 0, LARGEST_WEIGHT, f"data.costs.{level:.60}")
    return ClassesSpec(
        classes,
        tuple(_between(one, at, names) for at, one in enumerate(_rows(data, "between", _Between))),
        tuple(_traffic(one, at, names) for at, one in enumerate(_rows(data, "traffic", _Traffic))),
        costs,
        data.get("class-label", ""),
    )


def read_annotations(annotations: Mapping[str, str], largest: int) -> ClassesSpec | None:
    """Return the classes in a group's annotations, as `read` does for keys."""
    found = {key: annotations[PREFIX + key] for key in KEYS if PREFIX + key in annotations}
    try:
        return read(found, largest)
    except ObjectError as error:
        text = error.message.replace("data.", f"metadata.annotations.{PREFIX}")
        raise ObjectError(text) from error


def _class(name: str, found: Any, largest: int) -> ClassSpec:
    where = f"data.classes.{name:.60}"
    if not name:
        raise ObjectError("data.classes: a class has no name")
    try:
        one = msgspec.convert(found, _Class)
    except msgspec.ValidationError as error:
        raise ObjectError(f"{where}: {error}") from error
    for key, number in (("min", one.min), ("max", one.max)):
        check_between(number, 0, largest, f"{where}.{key}")
    if one.max and one.min > one.max:
        raise ObjectError(f"{where}: min {one.min} is above max {one.max}")
    rules = constraints(one.constraints, f"{where}.constraints")
    for level, rule in rules.items():
        if rule.for_s:
            raise ObjectError(
                f"{where}.constraints.{level}.for: only a rule of the whole group has it"
            )
    return ClassSpec(name, one.min, one.max, rules)


def _rows(data: Mapping[str, str], key: str, kind: Any) -> list[Any]:
    if key not in data:
        return []
    found = parsed(data, key)
    if not isinstance(found, list):
        raise ObjectError(f"data.{key}: a JSON array is needed, not {kind_of(found)}")
    check_count(found, MOST_RULES, f"data.{key}", "entries")
    try:
        return [msgspec.convert(one, kind) for one in found]
    except msgspec.ValidationError as error:
        rules = f" (rules: {', '.join(get_args(Relation))})" if key == "between" else ""
        raise ObjectError(f"data.{key}: {error}{rules}") from error


def _between(one: _Between, at: int, names: Sequence[str]) -> BetweenSpec:
    where = f"data.between[{at}].classes"
    known(one.classes, names, where)
    if one.classes[0] == one.classes[1]:
        raise ObjectError(f"{where}: two classes are needed, not {one.classes[0]!r:.60} twice")
    return BetweenSpec(one.rule, *one.classes, one.level)


def _traffic(one: _Traffic, at: int, names: Sequence[str]) -> TrafficSpec:
    known(one.between, names, f"data.traffic[{at}].between")
    return TrafficSpec(
        *one.between, json_number(one.weight, 1, LARGEST_WEIGHT, f"data.traffic[{at}].weight")
    )
