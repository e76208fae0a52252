"""The default profile, all in-tree plugins, under the same faults as the tiny ones.

Beyond the invariants of the rig: every plugin's tracker equals a rebuilt one, and no pod sleeps
that its plugins would accept (a missing hint costs five minutes).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from scheduler.engine.engine import Engine
from scheduler.objects.meta import LabelSelector
from scheduler.objects.node import Taint
from scheduler.objects.pod import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from tests.property.engines import build
from tests.property.making import make_node, make_pod
from tests.property.moves import (
    NODES,
    PODS,
    ZONES,
    Move,
    Pick,
    add_node,
    change_node,
    change_pod,
    create_pod,
    doorman,
    seeded_run,
)
from tests.property.rig import Rig

HOST = "kubernetes.io/hostname"


def _term(app: str, key: str) -> tuple[PodAffinityTerm, ...]:
    return (PodAffinityTerm(key, LabelSelector({"app": app})),)


def _spec(pick: Pick, app: str) -> dict[str, Any]:
    """Return one of the specs that a pod may have."""
    match pick(8):
        case 0:
            return {"node_selector": {"zone": ZONES[pick(2)]}}
        case 1:
            return {"tolerations": (Toleration("dedicated", "Exists"),)}
        case 2:
            return {"affinity": Affinity(None, None, PodAffinity(_term(app, HOST)))}
        case 3:
            return {"affinity": Affinity(None, PodAffinity(_term("x", "zone")), None)}
        case 4:
            selector = LabelSelector({"app": app})
            spread = TopologySpreadConstraint(1, "zone", "DoNotSchedule", selector)
            return {"topology_spread_constraints": (spread,)}
        case 5:
            return {"host_port": 80}
        case _:
            return {}


def any_pod(rig: Rig, pick: Pick) -> None:
    """Create a pod with random requirements."""
    name = PODS[pick(len(PODS))]
    if f"default/{name}" not in rig.api.pods:
        app = "xy"[pick(2)]
        uid = f"{name}-{rig.api._version}"
        fields: dict[str, Any] = {"cpu": 1 + pick(3), "priority": pick(3), "labels": {"app": app}}
        rig.api.put("Pod", make_pod(name, uid=uid, **fields, **_spec(pick, app)))


def any_node(rig: Rig, pick: Pick) -> None:
    """A node appears, or changes in size, zone, taints or schedulability."""
    name = NODES[pick(len(NODES))]
    node = make_node(
        name,
        cpu=1 + pick(5),
        labels={"zone": ZONES[pick(2)], HOST: name},
        taints=(Taint("dedicated", "", "NoSchedule"),) if pick(5) == 0 else (),
        unschedulable=pick(8) == 0,
    )
    rig.api.put("Node", node)


INSTEAD: Mapping[Move, Move] = {create_pod: any_pod, add_node: any_node, change_node: any_node}


@pytest.mark.parametrize("first", range(0, 60, 15))
def test_generated_runs(first: int):
    """No pod is lost, bound twice or overcommitted; no pod sleeps that would fit."""
    for seed in range(first, first + 15):
        check(seed)


# Pods that an eviction would have helped except for their affinity slept when a pod that they have
# affinity to arrived.
FOUND = (3023, 3917)


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_stays_mended(seed: int):
    """The invariants hold in runs that once broke them."""
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 11000, 100))
def test_many_generated_runs(first: int):
    """The invariant holds on ten thousand seeds."""
    for seed in range(first, first + 100):
        check(seed)


def check(seed: int) -> None:
    """Settle a run and check its trackers; a restarted process then has no decision to make."""
    rig = seeded_run(seed, build, without=(doorman, change_pod), instead=INSTEAD)
    rig.settle()
    check_trackers(rig.engine)
    before = rig.api.placed
    rig.restart()
    rig.calm()
    assert before == rig.api.placed, seed


def check_trackers(engine: Engine) -> None:
    """Compare each tracker with one built from the present objects."""
    for key, tracker in engine.intake.trackers.items():
        fresh = key.made()
        fresh.rebuild(engine.cluster)
        assert plain(fresh.columns()) == plain(tracker.columns()), key


def plain(value: Any) -> Any:
    """Return columns as plain data, without regard to order or to empty rows at the end."""
    if isinstance(value, np.ndarray):
        cells = value.tolist()
        while cells and not cells[-1]:
            cells.pop()
        return cells
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return value
