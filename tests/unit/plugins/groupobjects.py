"""Clusters with a tree and groups, as plain objects, by short helpers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from scheduler.testing import node
from tests.unit.simulate.asking import pod

Manifest = dict[str, Any]


def tree(units: Mapping[str, Any], *levels: str, **more: Any) -> list[Manifest]:
    """Return the nodes of a tree (leaf → CPUs) and the ConfigMap that describes it."""
    found = [
        node(name, cpu=str(cpus), memory="64Gi", pods="1000", **more)
        for name, cpus in leaves(units)
    ]
    data = {"tree": json.dumps(_bare(units)), "level-names": json.dumps(levels or ("rack", "node"))}
    return [*found, config_map("tree", "sakkara.topology", data)]


def leaves(units: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield node names with their CPUs."""
    for name, below in units.items():
        if isinstance(below, Mapping):
            yield from leaves(below)
        else:
            yield name, below


def config_map(name: str, label: str, data: Mapping[str, str]) -> Manifest:
    """Return a labelled ConfigMap in `default`."""
    meta = {"name": name, "namespace": "default", "labels": {label: ""}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(data)}


def group(
    name: str, size: int, rules: Mapping[str, Any] | None = None, *, priority: int = 0
) -> Manifest:
    """Return the ConfigMap of a group."""
    data = {"name": name, "size": str(size), "priority": str(priority)}
    return config_map(name, "sakkara.group", data | {"constraints": json.dumps(rules or {})})


def members(
    name: str, count: int, *, priority: int = 0, cpu: str = "1", **more: Any
) -> list[Manifest]:
    """Return pending members of a group, one CPU each."""
    return [member(f"{name}-{n}", name, priority=priority, cpu=cpu, **more) for n in range(count)]


def member(
    name: str,
    group_name: str = "",
    *,
    on: str = "",
    priority: int = 0,
    cpu: str = "1",
    spec: Mapping[str, Any] | None = None,
) -> Manifest:
    """Return a pod, of a group or not, on a node or pending."""
    labels = {"sakkara.group.name": group_name} if group_name else {}
    more = {"priority": priority, **(spec or {})}
    return (
        pod(name, labels=labels, node_name=on, requests={"cpu": cpu}, spec=more)
        if not on
        else {**pod(name, labels=labels, requests={"cpu": cpu}, spec=more | {"nodeName": on})}
    )


def _bare(units: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _bare(below) if isinstance(below, Mapping) else {} for name, below in units.items()
    }
