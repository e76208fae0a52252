"""Generated pods: their requirements, family by family."""

from tests.differential.kinds import Manifest
from tests.differential.making.between import affinity_between_pods, spread_constraints
from tests.differential.making.containers import add_containers
from tests.differential.making.nodes import UNSCHEDULABLE
from tests.differential.making.placing import node_affinity, node_selector, tolerations
from tests.differential.making.words import NAMESPACES, Dice

PRIORITIES = (None, 0, 5, 10, 100, -5)


def pod(dice: Dice, name: str, families: set[str]) -> Manifest:
    """Return one pod without a node."""
    spec: Manifest = {"terminationGracePeriodSeconds": 30}
    add_containers(dice, spec, families)
    if "taints" in families:
        spec["tolerations"] = tolerations(dice)
        if dice.chance(0.1):
            spec["tolerations"].append({"key": UNSCHEDULABLE, "operator": "Exists"})
    if "placing" in families:
        if dice.chance(0.35):
            spec["nodeSelector"] = node_selector(dice)
        if dice.chance(0.6):
            spec.setdefault("affinity", {})["nodeAffinity"] = node_affinity(dice)
    if "affinity" in families:
        spec.setdefault("affinity", {}).update(affinity_between_pods(dice))
    if "spread" in families and dice.chance(0.8):
        spec["topologySpreadConstraints"] = spread_constraints(dice)
    if "priority" in families:
        priority = dice.choice(PRIORITIES)
        if priority is not None:
            spec["priority"] = priority
        if dice.chance(0.1):
            spec["preemptionPolicy"] = "Never"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": dice.weighted(dict(zip(NAMESPACES, (5, 2, 1, 1), strict=True))),
            "labels": dice.labels(),
        },
        "spec": spec,
    }
