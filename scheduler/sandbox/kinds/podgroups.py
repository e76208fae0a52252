"""Validation of PodGroups of scheduling.k8s.io, as kube-apiserver 1.36 (v1alpha2) and 1.37 do.

Since 1.37 (v1beta1, v1alpha3) the disruption mode is a union, a gang may change its number of pods
later, and a group has a preemption policy. A CompositePodGroup (v1alpha3) has a number of groups
and is immutable.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from scheduler.sandbox.api.status import Cause, Object, invalid_value, not_supported, required

_POLICIES: Final = ("basic", "gang")
_MOST_CLAIMS: Final = 4
_REFERENCES: Final = ("resourceClaimName", "resourceClaimTemplateName")
_MODES: Final = ("Pod", "PodGroup")
_FIRST: Final = "v1alpha2"
_UNION: Final = ("single", "all")
# The whole spec: this version does not allow changes of an existing group.
_FIXED: Final = (
    "schedulingPolicy",
    "schedulingConstraints",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "podGroupTemplateRef",
    "resourceClaims",
)
_FIXED_SINCE_1_37: Final = (
    "parentCompositePodGroupName",
    "workloadRef",
    "schedulingConstraints",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "preemptionPolicy",
    "resourceClaims",
)


_FIXED_OF_COMPOSITES: Final = (
    *(name for name in _FIXED_SINCE_1_37 if name != "resourceClaims"),
    "schedulingPolicy",
)


def fill(obj: Object, version: str) -> None:
    """Set the defaults of a group in its version."""
    spec = obj.setdefault("spec", {})
    if version == _FIRST:
        spec.setdefault("disruptionMode", "Pod")
        spec.setdefault("podGroupTemplateRef", None)  # as in the real server's responses
    else:
        spec.setdefault("disruptionMode", {"single": {}})


def _claims(entries: Iterable[Object]) -> Iterator[Cause]:
    entries = list(entries)
    path = "spec.resourceClaims"
    if len(entries) > _MOST_CLAIMS:
        text = f"Too many: {len(entries)}: must have at most {_MOST_CLAIMS} items"
        yield Cause("FieldValueTooMany", path, text)
    names: set[str] = set()
    for index, one in enumerate(entries):
        name = one.get("name", "")
        if not name:
            yield required(f"{path}[{index}].name")
        elif name in names:
            yield Cause("FieldValueDuplicate", f"{path}[{index}]", f'Duplicate value: "{name}"')
        names.add(name)
        given = [key for key in _REFERENCES if one.get(key)]
        if len(given) != 1:
            words = "exactly one" if given else "one"
            text = f"must specify {words} of: `resourceClaimName`, `resourceClaimTemplateName`"
            yield invalid_value(f"{path}[{index}]", name, text)


def check(obj: Object, old: Object | None, version: str = _FIRST) -> Iterator[Cause]:
    """Yield the faults of a defaulted group; `old` is the version it replaces, if any."""
    spec = obj.get("spec") or {}
    if (
        version != _FIRST
        and spec.get("parentCompositePodGroupName")
        and not spec.get("workloadRef")
    ):
        yield required("spec.workloadRef", "must be set when parentCompositePodGroupName is set")
    yield from _policy(spec, "minCount")
    yield from _keys(spec)
    yield from _claims(spec.get("resourceClaims") or ())
    if version != _FIRST:
        yield from _one_of(spec.get("disruptionMode") or {}, _UNION, "spec.disruptionMode")
    elif spec.get("disruptionMode") not in _MODES:
        yield not_supported("spec.disruptionMode", spec.get("disruptionMode"), _MODES)
    if old is not None:
        before = old.get("spec") or {}
        yield from _changed(spec, before, _FIXED if version == _FIRST else _FIXED_SINCE_1_37)
        if version != _FIRST:
            policies = (one.get("schedulingPolicy") or {} for one in (spec, before))
            yield from _variant(*policies)


def check_composite(obj: Object, old: Object | None) -> Iterator[Cause]:
    """Yield the faults of a defaulted CompositePodGroup.

    `old` is the version it replaces, if any.
    """
    spec = obj.get("spec") or {}
    if not spec.get("workloadRef"):
        yield required("spec.workloadRef")
    yield from _policy(spec, "minGroupCount")
    yield from _keys(spec)
    yield from _one_of(spec.get("disruptionMode") or {}, _UNION, "spec.disruptionMode")
    if old is not None:
        yield from _changed(spec, old.get("spec") or {}, _FIXED_OF_COMPOSITES)


def _policy(spec: Object, least: str) -> Iterator[Cause]:
    """Yield the faults of the policy; a gang's `least` must be above 0."""
    path, policy = "spec.schedulingPolicy", spec.get("schedulingPolicy") or {}
    yield from _one_of(policy, _POLICIES, path)
    if policy.get("gang") is not None:
        number = policy["gang"].get(least, 0)
        if not number:
            yield required(f"{path}.gang.{least}")
        elif number < 0:
            text = "must be greater than or equal to 1"
            yield invalid_value(f"{path}.gang.{least}", number, text)


def _changed(spec: Object, before: Object, fixed: Iterable[str]) -> Iterator[Cause]:
    """Yield the immutable fields that changed."""
    for name in fixed:
        if spec.get(name) != before.get(name):
            yield invalid_value(f"spec.{name}", None, "field is immutable")


def _keys(spec: Object) -> Iterator[Cause]:
    keys = (spec.get("schedulingConstraints") or {}).get("topology") or ()
    if len(keys) > 1:
        path = "spec.schedulingConstraints.topology"
        yield Cause("FieldValueTooMany", path, f"Too many: {len(keys)}: must have at most 1 item")
    for index, one in enumerate(keys):
        if not one.get("key"):
            yield required(f"spec.schedulingConstraints.topology[{index}].key")


def _variant(policy: Object, before: Object) -> Iterator[Cause]:
    """Yield the immutable part of a policy if it changed: which of both it is."""
    path = "spec.schedulingPolicy"
    if before.get("basic") != policy.get("basic"):
        yield invalid_value(f"{path}.basic", None, "field is immutable")
    if before.get("gang") is not None and policy.get("gang") is None:
        yield invalid_value(f"{path}.gang", None, "field cannot be cleared once set")
    if before.get("gang") is None and policy.get("gang") is not None:
        yield invalid_value(f"{path}.gang", None, "field cannot be set once created")


def _one_of(union: Object, names: tuple[str, ...], path: str) -> Iterator[Cause]:
    """Yield the fault of a union unless exactly one of its members is set."""
    named = [name for name in names if union.get(name) is not None]
    choices = ", ".join(f"`{name}`" for name in names)
    if not named:
        yield invalid_value(path, "", f"must specify one of: {choices}")
    elif len(named) > 1:
        text = f"must specify exactly one of: {choices}"
        yield invalid_value(path, "{" + ", ".join(named) + "}", text)
