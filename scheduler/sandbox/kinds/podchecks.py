"""Validation of pods and pod templates: the rules for scheduling, with kube-apiserver's messages.

`check_spec` returns one cause per invalid field, `check_update` compares two versions of a pod. Not
a complete copy of the API server's validation: security contexts, inner fields of volumes and the
like are not checked.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from scheduler.controlplane.quantities import value
from scheduler.sandbox.api.status import (
    Cause,
    Object,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED: Final = re.compile(r"([a-z0-9.-]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_DNS_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and "
    "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation "
    "is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_POLICIES: Final = ("Always", "OnFailure", "Never")
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NODE_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_MUTABLE_TEXT: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was "
    "previously negative)"
)
_GATED_FREE: Final = ("nodeSelector", "affinity")


def check_spec(spec: Object, path: str) -> list[Cause]:
    """Yield all faults of a defaulted pod spec; `path` is its path, for example `spec`."""
    causes: list[Cause] = []
    if not spec.get("containers"):
        causes.append(required(f"{path}.containers"))
    names: set[str] = set()
    for part in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(part) or ()):
            causes += _check_container(container, f"{path}.{part}[{index}]", names)
    if spec.get("restartPolicy") not in _POLICIES:
        causes.append(not_supported(f"{path}.restartPolicy", spec.get("restartPolicy"), _POLICIES))
    causes += check_tolerations(spec.get("tolerations") or (), f"{path}.tolerations")
    causes += _check_affinity(spec.get("affinity") or {}, f"{path}.affinity")
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        causes += _check_spread(constraint, f"{path}.topologySpreadConstraints[{index}]")
    gates: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        where = f"{path}.schedulingGates[{index}]"
        if not _QUALIFIED.fullmatch(gate.get("name", "")):
            causes.append(invalid_value(where, gate.get("name", ""), "name part must be non-empty"))
        if gate.get("name") in gates:
            causes.append(Cause("FieldValueDuplicate", where, f'Duplicate value: "{gate["name"]}"'))
        gates.add(gate.get("name", ""))
    group = spec.get("schedulingGroup")
    if group is not None and not group.get("podGroupName"):
        where = f"{path}.schedulingGroup.podGroupName"
        causes.append(invalid_value(where, None, "must specify one of: `podGroupName`"))
    if spec.get("nodeName") and gates:
        causes.append(
            forbidden_field(
                f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared"
            )
        )
    return causes


def _check_container(container: Object, path: str, names: set[str]) -> Iterator[Cause]:
    name = container.get("name", "")
    if not name:
        yield required(f"{path}.name")
    elif not _LABEL.fullmatch(name) or len(name) > 63:
        yield invalid_value(f"{path}.name", name, _DNS_LABEL_TEXT)
    elif name in names:
        yield Cause("FieldValueDuplicate", f"{path}.name", f'Duplicate value: "{name}"')
    names.add(name)
    if not container.get("image"):
        yield required(f"{path}.image")
    for index, port in enumerate(container.get("ports") or ()):
        yield from _check_port(port, f"{path}.ports[{index}]")
    yield from check_resources(container.get("resources") or {}, f"{path}.resources")


def _check_port(port: Object, path: str) -> Iterator[Cause]:
    number = port.get("containerPort")
    if not number:
        yield required(f"{path}.containerPort")
    for name in ("containerPort", "hostPort"):
        number = port.get(name)
        if number and not 1 <= number <= 65535:
            yield invalid_value(f"{path}.{name}", number, "must be between 1 and 65535, inclusive")
    if port.get("protocol") not in _PROTOCOLS:
        yield not_supported(f"{path}.protocol", port.get("protocol"), _PROTOCOLS)


def check_resources(resources: Object, path: str) -> Iterator[Cause]:
    """Negative amounts, and requests above their limits."""
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            if value(amount) < 0:
                yield invalid_value(
                    f"{path}.{part}[{name}]", amount, "must be greater than or equal to 0"
                )
            elif "/" not in name and not _standard_resource(name):
                where = f"{path}.{part}[{name}]"
                yield invalid_value(
                    where, name, "must be a standard resource type or fully qualified"
                )
                yield invalid_value(where, name, "must be a standard resource for containers")
    for name, amount in requests.items():
        limit = limits.get(name)
        if limit is not None and value(amount) > value(limit):
            yield invalid_value(
                f"{path}.requests",
                str(amount),
                f"must be less than or equal to {name} limit of {limit}",
            )
        elif limit is None and "/" in name and not name.startswith("kubernetes.io/"):
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")


def _standard_resource(name: str) -> bool:
    return name in ("cpu", "memory", "ephemeral-storage") or name.startswith("hugepages-")


def check_tolerations(tolerations: Sequence[Object], path: str) -> Iterator[Cause]:
    """Faults of a list of tolerations."""
    for index, toleration in enumerate(tolerations):
        where = f"{path}[{index}]"
        operator = toleration.get("operator") or "Equal"
        key = toleration.get("key", "")
        if key and not _QUALIFIED.fullmatch(key):
            yield invalid_value(
                f"{where}.key", key, "name part must consist of alphanumeric characters"
            )
        if not key and operator != "Exists":
            yield invalid_value(
                f"{where}.operator",
                toleration.get("operator", ""),
                'operator must be Exists when `key` is empty, which means "match all values and '
                'all keys"',
            )
        if (
            toleration.get("tolerationSeconds") is not None
            and toleration.get("effect") != "NoExecute"
        ):
            yield invalid_value(
                f"{where}.effect",
                toleration.get("effect", ""),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            )
        if operator not in ("Equal", "Exists"):
            yield not_supported(f"{where}.operator", operator, ("Equal", "Exists"))
        elif operator == "Exists" and toleration.get("value"):
            yield invalid_value(
                f"{where}.operator",
                toleration["value"],
                "value must be empty when `operator` is 'Exists'",
            )
        if toleration.get("effect") and toleration["effect"] not in _EFFECTS:
            yield not_supported(f"{where}.effect", toleration["effect"], _EFFECTS)


def _check_affinity(affinity: Object, path: str) -> Iterator[Cause]:
    node = affinity.get("nodeAffinity") or {}
    hard = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    if hard is not None:
        where = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        if not hard.get("nodeSelectorTerms"):
            yield required(
                f"{where}.nodeSelectorTerms", "must have at least one node selector term"
            )
        for index, term in enumerate(hard.get("nodeSelectorTerms") or ()):
            yield from check_node_term(term, f"{where}.nodeSelectorTerms[{index}]")
    soft = node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    where = f"{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    for index, weighted in enumerate(soft):
        yield from _check_weight(weighted, f"{where}[{index}]")
        yield from check_node_term(weighted.get("preference") or {}, f"{where}[{index}].preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from _check_pod_affinity(affinity.get(kind) or {}, f"{path}.{kind}")


def _check_weight(weighted: Object, path: str) -> Iterator[Cause]:
    weight = weighted.get("weight", 0)
    if not 1 <= weight <= 100:
        yield invalid_value(f"{path}.weight", weight, "must be in the range 1-100")


def check_node_term(term: Object, path: str) -> Iterator[Cause]:
    """Yield the faults of one node selector term."""
    for index, rule in enumerate(term.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{index}]"
        operator, values = rule.get("operator"), rule.get("values") or ()
        if operator in ("In", "NotIn") and not values:
            yield required(
                f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"
            )
        elif operator in ("Exists", "DoesNotExist") and values:
            yield forbidden_field(
                f"{where}.values",
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )
        elif operator in ("Gt", "Lt") and len(values) != 1:
            yield required(
                f"{where}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"
            )
        elif operator not in _NODE_OPERATORS:
            yield invalid_value(f"{where}.operator", operator, "not a valid selector operator")


def _check_pod_affinity(part: Object, path: str) -> Iterator[Cause]:
    hard = part.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    where = f"{path}.requiredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate(hard):
        yield from _check_term(term, f"{where}[{index}]")
    soft = part.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    where = f"{path}.preferredDuringSchedulingIgnoredDuringExecution"
    for index, weighted in enumerate(soft):
        yield from _check_weight(weighted, f"{where}[{index}]")
        yield from _check_term(
            weighted.get("podAffinityTerm") or {}, f"{where}[{index}].podAffinityTerm"
        )


def _check_term(term: Object, path: str) -> Iterator[Cause]:
    if not term.get("topologyKey"):
        where = f"{path}.topologyKey"
        yield required(where, "can not be empty")
        yield invalid_value(where, "", "name part must be non-empty")
        yield invalid_value(where, "", _key_text())


def _check_spread(constraint: Object, path: str) -> Iterator[Cause]:
    skew = constraint.get("maxSkew", 0)
    if skew <= 0:
        yield invalid_value(f"{path}.maxSkew", skew, "must be greater than zero")
    if not constraint.get("topologyKey"):
        yield required(f"{path}.topologyKey", "can not be empty")
    allowed = ("DoNotSchedule", "ScheduleAnyway")
    if constraint.get("whenUnsatisfiable") not in allowed:
        yield not_supported(
            f"{path}.whenUnsatisfiable", constraint.get("whenUnsatisfiable", ""), allowed
        )


def check_labels(meta: Object) -> Iterator[Cause]:
    """Faults of `metadata.labels` of any object."""
    for key, text in (meta.get("labels") or {}).items():
        if not _QUALIFIED.fullmatch(key):
            yield invalid_value("metadata.labels", key, _key_text())
        if not isinstance(text, str) or len(text) > 63 or not _LABEL_VALUE.fullmatch(text):
            yield invalid_value("metadata.labels", text, _value_text(text))


def check_update(new: Object, old: Object, subresource: str = "") -> list[Cause]:
    """Yield the faults of a change of a pod's spec; most of it is immutable.

    `resize` may change resources and `ephemeralcontainers` may add such containers; other changes
    through them are dropped.
    """
    if subresource:
        return check_spec(new["spec"], "spec")
    causes: list[Cause] = []
    after, before = dict(new["spec"]), dict(old["spec"])
    old_gates = [gate["name"] for gate in before.pop("schedulingGates", None) or ()]
    causes += [
        forbidden_field(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for index, gate in enumerate(after.pop("schedulingGates", None) or ())
        if gate["name"] not in old_gates
    ]
    _free_images(after, before)
    for name in ("activeDeadlineSeconds", "terminationGracePeriodSeconds"):
        after.pop(name, None)
        before.pop(name, None)
    kept = before.pop("tolerations", None) or []
    added = after.pop("tolerations", None) or []
    if any(toleration not in added for toleration in kept):
        causes.append(
            forbidden_field(
                "spec.tolerations",
                "existing toleration can not be modified except its tolerationSeconds",
            )
        )
    if old_gates:
        for name in _GATED_FREE:
            after.pop(name, None)
            before.pop(name, None)
        causes += _check_gated_selector(new["spec"], old["spec"])
    if after != before:
        causes.append(forbidden_field("spec", _MUTABLE_TEXT))
    return causes


def _check_gated_selector(after: Object, before: Object) -> Iterator[Cause]:
    current = before.get("nodeSelector") or {}
    sent = after.get("nodeSelector") or {}
    if any(sent.get(key) != text for key, text in current.items()):
        yield invalid_value(
            "spec.nodeSelector",
            sent,
            "only additions are allowed (no deletions or modifications)",
        )


def _free_images(after: Object, before: Object) -> None:
    for part in ("containers", "initContainers"):
        if part in after and part in before and len(after[part]) == len(before[part]):
            after[part] = [_without_image(container) for container in after[part]]
            before[part] = [_without_image(container) for container in before[part]]


def _without_image(container: Object) -> Object:
    return {name: content for name, content in container.items() if name != "image"}


def _key_text() -> str:
    return (
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and "
        "end with an "
        "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
        "validation is "
        "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    )


def _value_text(text: Any) -> str:
    if isinstance(text, str) and len(text) > 63:
        return "must be no more than 63 characters"
    return (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
        "'.', and must "
        "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
        "'12345', regex used "
        "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    )
