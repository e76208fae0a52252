"""Runs a workload case: each phase is a snapshot for `simulate`, and the next begins with its
result.
"""

import copy
import json
from functools import cache

import msgspec

from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.kinds import WORKLOAD_GROUPS
from scheduler.simulate.setups import Setups
from scheduler.simulate.simulate import SimulationRun
from scheduler.simulate.stage import AnswerOptions, staged, take_apart
from scheduler.snapshot.documents import items_of_objects
from scheduler.snapshot.snapshot import read_snapshot
from tests.vectors.workloadcluster import key_of


@cache
def setup():
    """Return the setup without a configuration."""
    return Setups(Registry(IN_TREE)).default


def phases_of(case):
    """Return the observation at the end of each phase, in the terms of the record."""
    objects = {(one["kind"], key_of(one)): copy.deepcopy(one) for one in case["objects"]}
    seen = [_phase(objects)]
    for step in case["steps"]:
        for kind, namespace, name in step.get("delete", ()):
            if kind != "PodGroup":  # a finalizer keeps a group as long as it has pods
                objects.pop((kind, f"{namespace}/{name}"), None)
        for one in step.get("create", ()):
            objects[one["kind"], key_of(one)] = copy.deepcopy(one)
        seen.append(_phase(objects))
    return seen


def _phase(objects):
    """Simulate; copy the decisions to the objects, and return the observation."""
    pending = [one for one in objects.values() if is_pending(one)]
    rest = [one for one in objects.values() if not is_pending(one)]
    snapshot = read_snapshot(_items(rest, "objects"), _items(pending, "pending"))
    stage = staged(snapshot, setup(), AnswerOptions())
    run = SimulationRun(stage)
    run.to_the_end()
    results = {f"{one.namespace}/{one.name}": one for one in run.simulation().pods}
    pods = {}
    for key in [key for kind, key in objects if kind == "Pod"]:
        now = run.cluster.find(key)
        if now is None:
            del objects["Pod", key]
            continue
        objects["Pod", key]["spec"]["nodeName"] = now.spec.node_name
        one = results.get(key)
        condition = ["True", "", ""]
        if one is not None and one.node is None:
            condition = ["False", one.reason, one.message]
        pods[key] = {
            "node": now.spec.node_name or None,
            "condition": condition,
            "nominated": now.status.nominated_node_name or None,
        }
    groups = {}
    for kind in WORKLOAD_GROUPS:
        for key, group in stage.engine.cluster.store.of(kind.kind).items():
            conditions = msgspec.to_builtins(group.status.conditions)
            groups[key] = {one["type"]: [one[f] for f in FIELDS] for one in map(filled, conditions)}
            objects["PodGroup", key]["status"] = {"conditions": list(conditions)}
    take_apart(stage)
    evicted = {
        f"{one.namespace}/{one.name}": [f"{gone.namespace}/{gone.name}" for gone in one.victims]
        for one in results.values()
        if one.victims
    }
    return {"pods": pods, "groups": groups, "evicted": evicted}


FIELDS = ("status", "reason", "message")


def filled(condition):
    """Return a condition with the fields that are empty."""
    return dict.fromkeys(FIELDS, "") | condition


def is_pending(one):
    """Return whether an object is a pod without a node."""
    return one["kind"] == "Pod" and not one["spec"].get("nodeName")


def _items(objects, where):
    raw = [msgspec.Raw(json.dumps(one).encode()) for one in objects]
    return items_of_objects(raw, where)
