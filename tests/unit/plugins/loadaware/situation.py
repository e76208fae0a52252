"""Helpers that make reports, nodes and pods of load-aware placement and evaluate the plugin."""

from typing import Any

from scheduler.base.clock import rfc3339
from scheduler.plugins.loadaware import LoadAwareScheduling
from scheduler.testing import evaluate
from scheduler.testing.builders import node, pod
from scheduler.testing.scene import NOW

Manifest = dict[str, Any]
PLUGIN = LoadAwareScheduling
DOMAIN = "scheduling.koordinator.sh"


def report(
    name: str = "n",
    *,
    cpu: str | None = "0",
    memory: str = "0",
    age_s: float | None = 0,
    pods: list[Manifest] | None = None,
    windows: list[Manifest] | None = None,
    interval_s: int = 60,
    **info: Any,
) -> Manifest:
    """Return a NodeMetric; `cpu` None leaves the measurements out, `age_s` None the time."""
    status: Manifest = {"podsMetric": pods or []}
    if age_s is not None:
        status["updateTime"] = rfc3339(NOW - age_s)
    if cpu is not None:
        status["nodeMetric"] = {
            "nodeUsage": {"resources": {"cpu": cpu, "memory": memory}},
            "aggregatedNodeUsages": windows or [],
            **info,
        }
    return {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": name},
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": interval_s}},
        "status": status,
    }


def pod_usage(name: str, cpu: str, memory: str = "0", priority: str = "koord-prod") -> Manifest:
    """Return an entry of podsMetric."""
    return {
        "namespace": "default",
        "name": name,
        "priority": priority,
        "podUsage": {"resources": {"cpu": cpu, "memory": memory}},
    }


def window(duration: str, kind: str, cpu: str) -> Manifest:
    """Return an entry of aggregatedNodeUsages."""
    return {"duration": duration, "usage": {kind: {"resources": {"cpu": cpu, "memory": "0"}}}}


def big(name: str = "n", thresholds: str = "", raw: str = "") -> Manifest:
    """Return a node of 100 CPUs and 100 GiB with annotations."""
    found = node(name, cpu="100", memory="100Gi")
    found["metadata"]["annotations"] = {
        f"{DOMAIN}/usage-thresholds": thresholds,
        "node.koordinator.sh/raw-allocatable": raw,
    }
    return found


def wants(name: str = "new", cpu: str = "0", memory: str = "0", **more: Any) -> Manifest:
    """Return a pod with these requests."""
    return pod(name, requests={"cpu": cpu, "memory": memory}, **more)


def placed(name: str, cpu: str, *, assigned_s: float | None, **more: Any) -> Manifest:
    """Return a pod on node `n`, assigned `assigned_s` seconds ago; None leaves the time out."""
    found = pod(name, node_name="n", requests={"cpu": cpu, "memory": "1Gi"}, **more)
    if assigned_s is not None:
        found["status"] = found["status"] | {"conditions": [condition("PodScheduled", assigned_s)]}
    return found


def condition(kind: str, age_s: float) -> Manifest:
    """Return a condition that is True since then."""
    return {"type": kind, "status": "True", "lastTransitionTime": rfc3339(NOW - age_s)}


def annotated(manifest: Manifest, **annotations: str) -> Manifest:
    """Return a pod with annotations of the scheduler's domain; `_` stands for `-`."""
    meta = manifest["metadata"] | {
        "annotations": {f"{DOMAIN}/{k.replace('_', '-')}": v for k, v in annotations.items()}
    }
    return manifest | {"metadata": meta}


def ask(args: Manifest | None = None, **given: Any) -> Any:
    """Evaluate the plugin; the defaults are one `big()` node and the pod of `wants()`."""
    given.setdefault("nodes", [big()])
    given.setdefault("pod", wants())
    given.setdefault("now", NOW)
    return evaluate(PLUGIN, args=args or {}, **given)


def reason(args: Manifest | None = None, **given: Any) -> str:
    """Return why node `n` is rejected, "" when it passes."""
    message: str = ask(args, **given).filter["n"].message
    return message


def score(args: Manifest | None = None, **given: Any) -> int:
    """Return the score of node `n`."""
    found: int = ask(args, **given).raw["n"]
    return found
