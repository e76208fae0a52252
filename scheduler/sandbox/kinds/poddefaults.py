"""The values that the API server fills in where a pod, or a pod template, leaves a field out.

`defaults.py` calls `fill_spec` on a private copy of the object. Values that depend on other objects (priority,
tolerations, runtime class) are admission and live in `podadmission.py`.
"""

from typing import Any, Final

from scheduler.sandbox.api.status import Object

_FILE_MODE: Final = 0o644
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
    _fill_pod_resources(spec)
    if spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", spec["serviceAccountName"])


def fill_pod(spec: Object) -> None:
    """Default what only a pod gets, not a template."""
    spec.setdefault("enableServiceLinks", True)
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        requests_from_limits(container["resources"])


def requests_from_limits(resources: Object) -> None:
    """Let a limit stand for the request that is left out."""
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
    resources = spec.get("resources")
    if resources:
        requests_from_limits(resources)
