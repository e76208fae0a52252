"""Generated requirements about nodes: tolerations, selectors, node affinity."""

from tests.differential.kinds import Manifest
from tests.differential.making.nodes import EFFECTS, TAINTS
from tests.differential.making.words import HOSTNAME, ZONE, ZONES, Dice

VALUES = {
    ZONE: ZONES,
    "disk": ("ssd", "hdd"),
    "rack": ("1", "2", "3"),
    "num": ("1", "5", "10"),
    HOSTNAME: ("n0", "n1", "n2"),
    "nowhere": ("x",),
}


def tolerations(dice: Dice) -> list[Manifest]:
    """Return tolerations for some of the taints that nodes have."""
    return [_toleration(dice) for _ in range(dice.weighted({0: 3, 1: 4, 2: 3}))]


def node_selector(dice: Dice) -> dict[str, str]:
    """Return a node selector that some nodes match."""
    key = dice.choice((ZONE, "disk", "rack"))
    return {key: dice.choice(VALUES[key])}


def node_affinity(dice: Dice) -> Manifest:
    """Return node affinity, required or preferred or both."""
    found: Manifest = {}
    if dice.chance(0.4):
        terms = [_term(dice) for _ in range(dice.weighted({1: 3, 2: 2}))]
        found["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if dice.chance(0.7) or not found:
        found["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": dice.choice((1, 10, 50, 100)), "preference": _term(dice, fields=0.1)}
            for _ in range(dice.weighted({1: 3, 2: 2, 3: 1}))
        ]
    return found


def _toleration(dice: Dice) -> Manifest:
    if dice.chance(0.1):
        return {"operator": "Exists"}
    key = dice.choice(list(TAINTS))
    found: Manifest = {"key": key}
    if dice.chance(0.5):
        found["operator"] = "Exists"
    else:
        found |= {"operator": "Equal", "value": dice.choice(TAINTS[key])}
    if dice.chance(0.7):
        found["effect"] = dice.choice(EFFECTS)
    return found


def _term(dice: Dice, fields: float = 0.15) -> Manifest:
    if dice.chance(fields):
        names = dice.some(("n0", "n1", "n2", "n3", "gone"), 1, 1)
        operator = dice.weighted({"In": 4, "NotIn": 1})
        found: Manifest = {
            "matchFields": [{"key": "metadata.name", "operator": operator, "values": names}]
        }
        if dice.chance(0.3):
            found["matchExpressions"] = [_requirement(dice)]
        return found
    return {"matchExpressions": [_requirement(dice) for _ in range(dice.weighted({1: 4, 2: 1}))]}


def _requirement(dice: Dice) -> Manifest:
    key = dice.choice(list(VALUES))
    kinds: dict[str, float] = {"In": 4, "NotIn": 2, "Exists": 2, "DoesNotExist": 1}
    if key == "num":
        kinds = {"Gt": 2, "Lt": 2, "In": 1}
    operator = dice.weighted(kinds)
    found: Manifest = {"key": key, "operator": operator}
    if operator in {"In", "NotIn"}:
        found["values"] = dice.some(VALUES[key], 2, 1)
    if operator in {"Gt", "Lt"}:
        found["values"] = [dice.weighted({"1": 3, "5": 3, "0": 1, "x": 0.15})]
    return found
