"""Generated objects that select pods by their labels: services, controllers, budgets."""

from tests.differential.kinds import Manifest
from tests.differential.making.words import LABELS, NAMESPACES, Dice, selector

CONTROLLERS = {"ReplicaSet": "apps/v1", "ReplicationController": "v1", "StatefulSet": "apps/v1"}


def owners(dice: Dice, families: set[str]) -> list[Manifest]:
    """Return services and controllers that select pods: the default spread constraints use them."""
    if "owners" not in families:
        return []
    found = []
    for number in range(dice.randint(1, 3)):
        kind = dice.weighted(
            {"Service": 4, "ReplicaSet": 2, "ReplicationController": 1, "StatefulSet": 1}
        )
        found.append(_owner(dice, kind, f"o{number}"))
    return found


def budgets(dice: Dice, families: set[str]) -> list[Manifest]:
    """Return disruption budgets."""
    if "priority" not in families:
        return []
    return [_budget(dice, f"b{number}") for number in range(dice.weighted({0: 2, 1: 3, 2: 2}))]


def _owner(dice: Dice, kind: str, name: str) -> Manifest:
    labels = {k: dice.choice(v) for k, v in LABELS.items() if dice.chance(0.4)} or {"app": "a"}
    spec: Manifest = {"selector": labels}
    if kind == "Service":
        spec["ports"] = [{"port": 80}]
        if dice.chance(0.1):
            del spec["selector"]
    else:
        container = {"name": "c", "image": "i"}
        spec["template"] = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec["replicas"] = 0  # no controller creates its pods here, and `simulate` would
        if kind == "StatefulSet":
            spec["serviceName"] = "any"
        if kind in {"ReplicaSet", "StatefulSet"}:
            spec["selector"] = {"matchLabels": labels}
    return {"kind": kind, "metadata": {"name": name, "namespace": _namespace(dice)}, "spec": spec}


def own(dice: Dice, pod: Manifest, objects: list[Manifest]) -> None:
    """Let a controller of the pod's namespace own the pod, as owner references show it."""
    namespace = pod["metadata"]["namespace"]
    found = [
        obj
        for obj in objects
        if obj["kind"] in CONTROLLERS and obj["metadata"]["namespace"] == namespace
    ]
    if not found or not dice.chance(0.7):
        return
    owner = dice.choice(found)
    pod["metadata"]["labels"] |= owner["spec"]["template"]["metadata"]["labels"]
    pod["metadata"]["ownerReferences"] = [
        {
            "apiVersion": CONTROLLERS[owner["kind"]],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": "11111111-1111-1111-1111-111111111111",
            "controller": True,
        }
    ]


def _budget(dice: Dice, name: str) -> Manifest:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": _namespace(dice)},
        "spec": {"selector": selector(dice), "minAvailable": 1},
        "status": {
            "disruptionsAllowed": dice.choice((0, 0, 1, 2)),
            "currentHealthy": 2,
            "desiredHealthy": 1,
            "expectedPods": 2,
            "observedGeneration": 1,
            "disruptedPods": {"e0": "2026-01-01T00:00:00Z"} if dice.chance(0.2) else {},
        },
    }


def _namespace(dice: Dice) -> str:
    return dice.weighted(dict(zip(NAMESPACES, (5, 2, 1, 1), strict=True)))
