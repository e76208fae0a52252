"""Whether a group's placement is optimal: plan its members again on the same cluster by `simulate`.

The daemon proved its answer when it placed the group and the objects store no proof; planning
again, with all other pods in place, restores it.
"""

from collections.abc import Sequence
from typing import Any, Final

from scheduler.base.errors import InputError
from scheduler.config import Loaded
from scheduler.framework.groups import GroupReport
from scheduler.intree import registry
from scheduler.simulate.simulate import simulate
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.documents import items_of_objects
from scheduler.snapshot.snapshot import read_snapshot

Object = dict[str, Any]

MEMBER_LABELS: Final = ("sakkara.group.name", "scheduling.x-k8s.io/pod-group")
_DESCRIBED: Final = ("name", "size", "priority", "constraints")


def proof(objects: Sequence[Object], config: Loaded, key: str) -> GroupReport:
    """Return the solver's result for the group `namespace/name`.

    InputError when it has no members.
    """
    namespace, _, name = key.partition("/")
    unplaced = [_as_pending(one, namespace, name) for one in objects]
    found = simulate(
        read_snapshot(items_of_objects(unplaced, "cluster")),
        Setup(config, registry()),
        AnswerOptions(),
    )
    for group in found.groups:
        if (group.namespace, group.name) == (namespace, name):
            return group
    raise InputError(f"there is no group {key}", where="prove")


def where(placement: dict[str, Any]) -> str:
    """Return how many pods are in each unit of the highest level: `4 in rack-0, 4 in rack-2`."""
    (root,) = placement.values()
    return ", ".join(f"{_pods(below)} in {unit}" for unit, below in sorted(root.items()))


def cost(found: GroupReport) -> str:
    """Return the cost of the members' traffic, as a part of a sentence; '' if it is not counted."""
    terms = dict(zip(found.terms, found.objective, strict=True))
    return f"its traffic costs {terms['cost']}; " if "cost" in terms else ""


def _pods(tree: dict[str, Any]) -> int:
    return sum(_pods(below) for below in tree.values()) if tree else 1


def _as_pending(one: Object, namespace: str, name: str) -> Object:
    """Return a member without its node, and a group without its status."""
    meta = one["metadata"]
    if meta.get("namespace") != namespace:
        return one
    labels = meta.get("labels") or {}
    if one["kind"] == "Pod" and name in map(labels.get, MEMBER_LABELS):
        spec = {field: value for field, value in one["spec"].items() if field != "nodeName"}
        return {**one, "spec": spec, "status": {}}
    if one["kind"] == "PodGroup" and meta["name"] == name:
        return {**one, "status": {}}
    if one["kind"] == "ConfigMap" and (one.get("data") or {}).get("name") == name:
        return {**one, "data": {k: v for k, v in one["data"].items() if k in _DESCRIBED}}
    return one
