"""What a PodGroup of scheduling.k8s.io may say, as kube-apiserver 1.36 checks it (v1alpha2)."""

from collections.abc import Iterable, Iterator
from typing import Final

from scheduler.sandbox.api.status import Cause, Object, invalid_value, not_supported, required

_POLICIES: Final = ("basic", "gang")
_MOST_CLAIMS: Final = 4
_REFERENCES: Final = ("resourceClaimName", "resourceClaimTemplateName")
_MODES: Final = ("Pod", "PodGroup")
# Everything of the spec: this version changes nothing of a group that is there.
_FIXED: Final = (
    "schedulingPolicy",
    "schedulingConstraints",
    "disruptionMode",
    "priorityClassName",
    "priority",
    "podGroupTemplateRef",
    "resourceClaims",
)


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


def check(obj: Object, old: Object | None) -> Iterator[Cause]:
    """Yield what is wrong with a defaulted group; `old` is the version it replaces, if any."""
    spec = obj.get("spec") or {}
    policy = spec.get("schedulingPolicy") or {}
    named = [name for name in _POLICIES if policy.get(name) is not None]
    choices = "`basic`, `gang`"
    if not named:
        yield invalid_value("spec.schedulingPolicy", "", f"must specify one of: {choices}")
    elif len(named) > 1:
        text = f"must specify exactly one of: {choices}"
        yield invalid_value("spec.schedulingPolicy", "{basic, gang}", text)
    if "gang" in named:
        least = policy["gang"].get("minCount", 0)
        if not least:
            yield required("spec.schedulingPolicy.gang.minCount")
        elif least < 0:
            text = "must be greater than or equal to 1"
            yield invalid_value("spec.schedulingPolicy.gang.minCount", least, text)
    keys = (spec.get("schedulingConstraints") or {}).get("topology") or ()
    if len(keys) > 1:
        path = "spec.schedulingConstraints.topology"
        yield Cause("FieldValueTooMany", path, f"Too many: {len(keys)}: must have at most 1 item")
    for index, one in enumerate(keys):
        if not one.get("key"):
            yield required(f"spec.schedulingConstraints.topology[{index}].key")
    yield from _claims(spec.get("resourceClaims") or ())
    if spec.get("disruptionMode") not in _MODES:
        yield not_supported("spec.disruptionMode", spec.get("disruptionMode"), _MODES)
    if old is not None:
        before = old.get("spec") or {}
        for name in _FIXED:
            if spec.get(name) != before.get(name):
                yield invalid_value(f"spec.{name}", None, "field is immutable")
