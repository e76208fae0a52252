"""kube-apiserver's defaults for fields that a pod or a pod template leaves out.

`fill_spec` is for both, `fill_pod` for pods alone; both change a private copy. `admission` adds
values that depend on other objects (priority, tolerations, runtime class).
"""

from decimal import Decimal
from typing import Any, Final

from scheduler.controlplane.objects import Object, containers
from scheduler.controlplane.quantities import canonical, value

_FILE_MODE: Final = 0o644
_OVERCOMMITTED: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


def fill_spec(spec: Object) -> None:
    """Default a pod spec in place."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if not spec["schedulerName"]:
        spec["schedulerName"] = "default-scheduler"
    for container in spec.get("initContainers") or ():
        _fill_container(container, spec)
    for container in spec.get("containers") or ():
        _fill_container(container, spec)
    for container in spec.get("ephemeralContainers") or ():
        _fill_container(container, spec)
    for volume in spec.get("volumes") or ():
        _fill_volume(volume)
    if spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", spec["serviceAccountName"])


def fill_pod(spec: Object) -> None:
    """Set the defaults that pods get and pod templates do not, after `fill_spec`."""
    spec.setdefault("enableServiceLinks", True)
    for container in containers(spec):
        _requests_from_limits(container["resources"])
    _fill_pod_resources(spec)


def _requests_from_limits(resources: Object) -> None:
    """Set missing requests to the limits."""
    limits = resources.get("limits")
    if not limits:
        return
    requests = dict(resources.get("requests") or {})
    for name, amount in limits.items():
        requests.setdefault(name, amount)
    resources["requests"] = requests


def _fill_container(container: Object, spec: Object) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if spec.get("hostNetwork"):
            port.setdefault("hostPort", port.get("containerPort"))
    for name in _PROBES:
        probe = container.get(name)
        if probe:
            _fill_probe(probe)
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _fill_http(hook.get("httpGet"))
    for entry in container.get("env") or ():
        reference = (entry.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")


def _pull_policy(image: str) -> str:
    if "@" in image:
        return "IfNotPresent"
    tag = image.rpartition("/")[2].partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _fill_probe(probe: Object) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    _fill_http(probe.get("httpGet"))
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _fill_http(action: Object | None) -> None:
    if action is not None:
        action.setdefault("path", "/")
        action.setdefault("scheme", "HTTP")


def _fill_volume(volume: Object) -> None:
    sources = [name for name in volume if name != "name"]
    if not sources:
        volume["emptyDir"] = {}
        return
    source: Any = volume[sources[0]]
    if sources[0] in ("secret", "configMap", "downwardAPI"):
        source.setdefault("defaultMode", _FILE_MODE)
        _fill_items(source)
    elif sources[0] == "projected":
        source.setdefault("defaultMode", _FILE_MODE)
        for part in source.get("sources") or ():
            if "serviceAccountToken" in part:
                part["serviceAccountToken"].setdefault("expirationSeconds", 3600)
            if "downwardAPI" in part:
                _fill_items(part["downwardAPI"])
    elif sources[0] == "hostPath":
        source.setdefault("type", "")
    elif sources[0] == "ephemeral":
        claim = (source.get("volumeClaimTemplate") or {}).get("spec")
        if claim is not None:
            claim.setdefault("volumeMode", "Filesystem")


def _fill_items(source: Object) -> None:
    for item in source.get("items") or ():
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")


def _fill_pod_resources(spec: Object) -> None:
    """Fill in pod-level amounts that are left out, if some are given (KEP-2837).

    Requests of cpu and memory are the sum of the containers', then the pod-level limit. Limits of
    huge pages are the sum of the containers', and their requests equal them.
    """
    resources = spec.get("resources") or {}
    limits, requests = dict(resources.get("limits") or {}), dict(resources.get("requests") or {})
    if not limits and not requests:
        return
    for name, amount in total_of_containers(spec, "limits").items():
        if name.startswith(_HUGE_PAGES):
            limits.setdefault(name, amount)
    for name, amount in total_of_containers(spec, "requests").items():
        if name in _OVERCOMMITTED:
            requests.setdefault(name, amount)
    for name, amount in limits.items():
        if name in _OVERCOMMITTED or name.startswith(_HUGE_PAGES):
            requests.setdefault(name, amount)
    for part, amounts in (("limits", limits), ("requests", requests)):
        if amounts:
            resources[part] = amounts


def total_of_containers(spec: Object, part: str) -> dict[str, str]:
    """Return the total of all containers per resource: sidecars add up, init containers run in
    turn.
    """
    total: dict[str, list[Any]] = {}
    peak: dict[str, list[Any]] = {}
    sidecars: dict[str, list[Any]] = {}
    for container in spec.get("initContainers") or ():
        amounts = container["resources"].get(part) or {}
        if container.get("restartPolicy") == "Always":
            _add(sidecars, amounts)
            _add(total, amounts)
            amounts = {}
        for name in {*amounts, *sidecars}:
            needed = [*sidecars.get(name, ()), *([amounts[name]] if name in amounts else ())]
            peak[name] = max(peak.get(name, []), needed, key=_value)
    for container in spec.get("containers") or ():
        _add(total, container["resources"].get(part) or {})
    names = {*total, *peak}
    most = {name: max(total.get(name, []), peak.get(name, []), key=_value) for name in names}
    return {name: _written(amounts) for name, amounts in most.items()}


def _add(total: dict[str, list[Any]], amounts: Object) -> None:
    for name, amount in amounts.items():
        total.setdefault(name, []).append(amount)


def _value(amounts: list[Any]) -> Decimal:
    return sum(map(value, amounts), Decimal(0))


def _written(amounts: list[Any]) -> str:
    """Return the sum as kube-apiserver spells it: with a binary suffix if the first amount has
    one.
    """
    is_binary = bool(amounts) and str(amounts[0]).endswith("i")
    total = _value(amounts)
    if is_binary and total == total.to_integral_value() and total % 1024 == 0:
        return canonical(f"{int(total) // 1024}Ki")
    return canonical(f"{total:f}")
