"""The label values of generated objects, few enough to coincide, and their random choice."""

from random import Random
from typing import Any, TypeVar

from tests.differential.kinds import Manifest

T = TypeVar("T")

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
ZONES = ("eu-w1-a", "eu-w1-b", "eu-w2-a")
REGIONS = ("eu-w1", "eu-w2")
NAMESPACES: dict[str, dict[str, str]] = {
    "red": {"team": "one", "env": "prod", "resource.kubernetes.io/admin-access": "true"},
    "blue": {"team": "one", "env": "dev"},
    "green": {"team": "two"},
    "plain": {},
}
LABELS = {"app": ("a", "b", "c"), "tier": ("x", "y"), "rev": ("1", "2")}
GPU = "example.com/gpu"
FPGA = "example.com/fpga"
CPUS = ("0", "50m", "100m", "100m", "200m", "250m", "500m", "1", "1500m", "2")
MEMORIES = ("0", "64Mi", "100M", "200Mi", "200Mi", "512Mi", "1Gi", "1500M", "2Gi")


class Dice(Random):
    """A seeded random source with the picking methods of the generators."""

    def chance(self, share: float) -> bool:
        """Return true in this share of cases."""
        return self.random() < share

    def some(self, values: Any, most: int, least: int = 0) -> list[Any]:
        """Return some distinct values, in any order."""
        values = list(values)
        return self.sample(values, min(len(values), self.randint(least, most)))

    def weighted(self, choices: dict[T, float]) -> T:
        """Return one of the keys, by weight."""
        return self.choices(list(choices), list(choices.values()))[0]

    def labels(self, share: float = 0.75) -> dict[str, str]:
        """Return labels of a pod."""
        return {k: self.choice(v) for k, v in LABELS.items() if self.chance(share)}


def selector(dice: Dice) -> Manifest:
    """Return a label selector over the pods' labels; sometimes one that selects all."""
    kind = dice.weighted({"labels": 6, "expressions": 3, "both": 1, "all": 0.5})
    found: Manifest = {}
    if kind in {"labels", "both"}:
        key = dice.choice(list(LABELS))
        found["matchLabels"] = {key: dice.choice(LABELS[key])}
    if kind in {"expressions", "both"}:
        found["matchExpressions"] = [
            expression(dice, LABELS) for _ in range(dice.weighted({1: 3, 2: 1}))
        ]
    return found


def expression(dice: Dice, words: dict[str, Any]) -> Manifest:
    """Return one requirement of a label selector."""
    key = dice.choice(list(words))
    operator = dice.weighted({"In": 4, "NotIn": 2, "Exists": 2, "DoesNotExist": 1})
    found: Manifest = {"key": key, "operator": operator}
    if operator in {"In", "NotIn"}:
        found["values"] = dice.some(words[key], 2, 1)
    return found
