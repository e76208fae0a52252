"""Victims that fit elsewhere, for pods and groups: the choice, and the node in their events."""

from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.config import default_config
from scheduler.engine.effects import Answer, Evict, Record, Solve, Watched
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.groups.args import ClusterTopologyPlacementGroupArgs
from scheduler.groups.solver.questions import answer
from scheduler.intree import IN_TREE
from scheduler.objects.groups.podgroup import PodGroup, PodGroupSpec
from scheduler.objects.meta import AnnotatedMeta
from scheduler.objects.plain import read_node, read_pod
from scheduler.plugins.preemption import DefaultPreemption, DefaultPreemptionArgs
from scheduler.testing import node, pod

NOW = 1_800_000_000.0
GROUPS = "ClusterTopologyPlacementGroup"


def engine(*, is_on: bool) -> Engine:
    """Return an engine whose profiles prefer victims that fit elsewhere, or not.

    The nodes `n0` and `n1` of 2 cpu each have a pod of 2 cpu; only that of `n1` may run on `n2`,
    which has 2 cpu that the preemptors may not use.
    """
    registry = Registry(IN_TREE)
    args: dict[str, Any] = {
        DefaultPreemption.name: DefaultPreemptionArgs(prefer_victims_that_fit_elsewhere=is_on),
        GROUPS: ClusterTopologyPlacementGroupArgs(prefer_victims_that_fit_elsewhere=is_on),
    }
    profiles = [
        replace(profile, args={**profile.args, **args})
        for profile in default_config(registry).profiles
    ]
    found = Engine(profiles, registry)
    for name, use in (("n0", "train"), ("n1", "train"), ("n2", "serve")):
        show(found, "Node", read_node(node(name, cpu="2", labels={"use": use})))
    for name, on, use, start in (("a", "n0", "train", 2), ("b", "n1", "", 1)):
        selector = {"use": use} if use else {}
        raw = pod(name, requests={"cpu": "2"}, node_name=on, spec={"nodeSelector": selector})
        raw["spec"]["schedulerName"] = "trellis"
        raw["status"] = {"startTime": f"2026-01-0{start}T00:00:00Z"}
        raw["metadata"]["uid"] = name
        show(found, "Pod", read_pod(raw))
    return found


def show(found: Engine, kind: str, one: Any) -> None:
    """Add an object."""
    found.handle(Watched(kind, "ADDED", one), NOW)


def run(found: Engine) -> tuple[list[str], list[str]]:
    """Return the evicted pods and the notes on them."""
    effects = found.run(NOW, 64)
    for solve in [one for one in effects if isinstance(one, Solve)]:
        found.handle(Answer(solve.id, 200, body=answer(solve.instance)), NOW)
        effects += found.run(NOW, 64)
        for again in [one for one in effects if isinstance(one, Solve) and one.id > solve.id]:
            found.handle(Answer(again.id, 200, body=answer(again.instance)), NOW)
            effects += found.run(NOW, 64)
    notes = [one.note for one in effects if isinstance(one, Record) and one.reason == "Preempted"]
    return [one.name for one in effects if isinstance(one, Evict)], notes


def preemptor(name: str, **meta: Any) -> Any:
    """Return a pod of priority 9 for the nodes `n0` and `n1`."""
    spec = {"priority": 9, "schedulerName": "trellis", "nodeSelector": {"use": "train"}}
    raw = pod(name, requests={"cpu": "1"}, spec=spec, **meta)
    raw["metadata"]["uid"] = name
    return read_pod(raw)


@pytest.mark.parametrize("is_group", [False, True])
def test_the_victim_that_fits_elsewhere_goes(is_group):
    """With the option on its event names the node; with the option off no event does."""
    for is_on in (True, False):
        at = engine(is_on=is_on)
        labels = {"scheduling.x-k8s.io/pod-group": "g"} if is_group else {}
        if is_group:
            meta = AnnotatedMeta(name="g", namespace="default", uid="g")
            show(at, "PodGroup", PodGroup(meta, PodGroupSpec(2)))
            show(at, "Pod", preemptor("boss-2", labels=labels))
        show(at, "Pod", preemptor("boss", labels=labels))
        evicted, (note,) = run(at)

        assert ("expected to fit on node n2" in note) == is_on
        assert not is_on or evicted == ["b"]
        assert is_on or is_group or evicted == ["a"]
