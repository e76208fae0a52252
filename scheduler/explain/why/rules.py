"""The level rules in a group's objects, one by one, each with the group without it.

Read from the objects of every source: JSON by level (ConfigMap, annotation), the topology key of a
PodGroup, the required topology of Kueue's annotations. Pure functions; used by `grouped` and
`remedies`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.explain.why.grouptrials import GroupEdit
from scheduler.explain.why.records import SuggestedChange
from scheduler.groups.plugin import GroupFacts
from scheduler.groups.problem.instance import NEUTRAL
from scheduler.groups.sources import configmap
from scheduler.groups.sources import registry as sources
from scheduler.groups.sources.annotated import CONSTRAINTS_ANNOTATION
from scheduler.objects.groups.podgroup import SchedulingConstraints
from scheduler.objects.pod import Pod

KUEUE = "metadata.annotations[kueue.x-k8s.io/podset-%s-topology]"


class LevelRuleRequirement(msgspec.Struct, frozen=True):
    """One rule: the field that states it, the rule as text, and the group without it.

    `less` continues "fits". `drop` returns an edit without the rule, `changes` the same as changes
    of objects. `preferred` turns the rule into a preference instead, for sources that have both.
    """

    field: str
    text: str
    less: str
    drop: Callable[[GroupEdit], GroupEdit]
    changes: Callable[[Sequence[Pod]], tuple[SuggestedChange, ...]]
    preferred: LevelRuleRequirement | None = None


def rules_of(facts: GroupFacts) -> tuple[LevelRuleRequirement, ...]:
    """Return the rules of a group from the top level down."""
    required = facts.spec.labels.required if facts.spec.labels is not None else ""
    if required:
        return (_kueue(required),)
    return tuple(one for kind, obj in facts.objects[:1] for one in _of_object(kind, obj))


def name_of(kind: str, obj: Any) -> str:
    """Return an object as `Kind namespace/name`."""
    served = sources.BY_KIND[kind].served_as
    return f"{served} {obj.metadata.namespace}/{obj.metadata.name}"


def _kueue(required: str) -> LevelRuleRequirement:
    """Return the required topology. Without any annotation the pods also use unlabelled nodes."""
    text, less = f"is in one {required}", f"without the required topology {required}"
    field = KUEUE % "required"
    wish = f"if one {required} were preferred, not required"
    preferred = LevelRuleRequirement(
        field, text, wish, _kueue_drop(required), _kueue_changes(required)
    )
    return LevelRuleRequirement(field, text, less, _kueue_drop(""), _kueue_changes(""), preferred)


def _kueue_drop(preferred: str) -> Callable[[GroupEdit], GroupEdit]:
    def drop(edit: GroupEdit) -> GroupEdit:
        return replace(edit, members=tuple(_preferring(pod, preferred) for pod in edit.members))

    return drop


def _preferring(pod: Pod, preferred: str) -> Pod:
    notes = replace(pod.metadata.annotations, kueue_required="", kueue_preferred=preferred)
    return replace(pod, metadata=replace(pod.metadata, annotations=notes))


def _kueue_changes(preferred: str) -> Callable[[Sequence[Pod]], tuple[SuggestedChange, ...]]:
    def changes(members: Sequence[Pod]) -> tuple[SuggestedChange, ...]:
        steps = [(KUEUE % "required", "remove", "")]
        if preferred:
            steps.append((KUEUE % "preferred", "set", preferred))
        return tuple(SuggestedChange(f"Pod {pod.key}", *step) for pod in members for step in steps)

    return changes


def _of_object(kind: str, obj: Any) -> Iterator[LevelRuleRequirement]:
    topology = getattr(getattr(obj, "spec", None), "scheduling_constraints", None)
    if topology is not None and topology.topology:
        yield _topology_key(kind, obj, topology.topology[0].key)
    for level, rule in _rules_in(kind, obj).items():
        for key in _binding(rule):
            yield _json_rule(kind, obj, level, key, rule)


def _topology_key(kind: str, obj: Any, key: str) -> LevelRuleRequirement:
    def drop(edit: GroupEdit) -> GroupEdit:
        now = _object_in(edit, kind, obj)
        spec = replace(now.spec, scheduling_constraints=SchedulingConstraints())
        return _with_object(edit, kind, replace(now, spec=spec))

    field = "spec.schedulingConstraints.topology"
    change = SuggestedChange(name_of(kind, obj), field, "remove")
    less = f"without the topology constraint {key}"
    return LevelRuleRequirement(field, f"is in one {key}", less, drop, lambda _: (change,))


def _json_rule(
    kind: str, obj: Any, level: str, key: str, rule: dict[str, Any]
) -> LevelRuleRequirement:
    def drop(edit: GroupEdit) -> GroupEdit:
        now = _object_in(edit, kind, obj)
        rules = _rules_in(kind, now)
        # A time is allowed beside a hard type only.
        gone = {key, "for"} if key == "hard" else {key}
        rules[level] = {name: value for name, value in rules[level].items() if name not in gone}
        return _with_object(edit, kind, _with_rules(kind, now, rules))

    where = "data.constraints"
    if kind != configmap.KIND:
        where = f"metadata.annotations[{CONSTRAINTS_ANNOTATION}]"
    field = f"{where}.{level}.{key}"
    change = SuggestedChange(name_of(kind, obj), field, "remove")
    value = rule.get("type", "pack") if key == "hard" else rule[key]
    text = f"{level} {key} {value}"
    return LevelRuleRequirement(
        field, f"keeps {text}", f"without {text}", drop, lambda _: (change,)
    )


def _object_in(edit: GroupEdit, kind: str, obj: Any) -> Any:
    return next((one for name, one in edit.objects if name == kind), obj)


def _with_object(edit: GroupEdit, kind: str, obj: Any) -> GroupEdit:
    others = tuple(one for one in edit.objects if one[0] != kind)
    return replace(edit, objects=(*others, (kind, obj)))


def _rules_in(kind: str, obj: Any) -> dict[str, Any]:
    """Return the rules by level that an object states as JSON."""
    if kind == configmap.KIND:
        text = (obj.data or {}).get("constraints")
    else:
        notes = getattr(obj.metadata, "annotations", None)
        text = notes.get(CONSTRAINTS_ANNOTATION) if isinstance(notes, dict) else ""
    rules = json.loads(text or "{}")
    return rules if isinstance(rules, dict) else {}


def _with_rules(kind: str, obj: Any, rules: dict[str, Any]) -> Any:
    text = json.dumps(rules)
    if kind == configmap.KIND:
        return replace(obj, data={**(obj.data or {}), "constraints": text})
    notes = {**obj.metadata.annotations, CONSTRAINTS_ANNOTATION: text}
    return replace(obj, metadata=replace(obj.metadata, annotations=notes))


def _binding(rule: dict[str, Any]) -> list[str]:
    """Return the restricting keys of a rule."""
    found = [key for key, least in NEUTRAL.items() if rule.get(key, 0) > least]
    return [*found, *(["hard"] if rule.get("hard") else [])]
