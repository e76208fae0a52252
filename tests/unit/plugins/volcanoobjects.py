"""Volcano's objects, short to write."""

from __future__ import annotations

from typing import Any

from tests.unit.simulate.asking import pod

Manifest = dict[str, Any]
GROUP_NAME, TASK = "scheduling.k8s.io/group-name", "volcano.sh/task-spec"


def pod_group(name: str, least: int, *, annotations: Any = None, **spec: Any) -> Manifest:
    """Return a PodGroup of Volcano in `default`."""
    meta = {"name": name, "namespace": "default", "annotations": annotations or {}}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": meta,
        "spec": {"minMember": least, "queue": "default", **spec},
    }


def member(
    name: str, group: str, task: str = "", *, cpu: str = "1", priority: int = 0, **spec: Any
) -> Manifest:
    """Return a pending pod of a group, and of a task."""
    made: Manifest = pod(
        name,
        labels={TASK: task} if task else {},
        requests={"cpu": cpu},
        spec={"priority": priority, **spec},
    )
    made["metadata"]["annotations"] = {GROUP_NAME: group}
    return made


def members(group: str, count: int, task: str = "", **more: Any) -> list[Manifest]:
    """Return pending pods of a group."""
    return [member(f"{group}{task}-{at}", group, task, **more) for at in range(count)]


def hyper_node(name: str, tier: Any, *members: Manifest, tier_name: str = "") -> Manifest:
    """Return a HyperNode."""
    named = {"tierName": tier_name} if tier_name else {}
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": list(members), **named},
    }


def of_nodes(*names: str, kind: str = "Node") -> list[Manifest]:
    """Return members of a HyperNode by their names."""
    return [{"type": kind, "selector": {"exactMatch": {"name": name}}} for name in names]
