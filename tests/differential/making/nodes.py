"""Generated nodes: sizes, labels, taints, images, features."""

from tests.differential.kinds import Manifest
from tests.differential.making.words import FPGA, GPU, HOSTNAME, REGION, REGIONS, ZONE, ZONES, Dice

TAINTS = {"dedicated": ("a", "b", ""), "example.com/maintenance": ("", "soon")}
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
IMAGES = {
    "registry.example.com/app:v1": 90_000_000,
    "registry.example.com/app:v2": 400_000_000,
    "registry.example.com/big:latest": 1_500_000_000,
    "registry.example.com/small:1": 8_000_000,
}
FEATURES = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport", "Other")


def node(dice: Dice, name: str, families: set[str]) -> Manifest:
    """Return one node."""
    allocatable = _amounts(dice, families)
    status: Manifest = {"allocatable": allocatable, "capacity": dict(allocatable)}
    if "images" in families:
        status["images"] = _images(dice)
    if "features" in families and dice.chance(0.7):
        status["declaredFeatures"] = sorted(dice.some(FEATURES, 3))
    spec: Manifest = {}
    if "taints" in families:
        taints = [_taint(dice) for _ in range(dice.weighted({0: 4, 1: 4, 2: 2}))]
        unique = {(one["key"], one["effect"]): one for one in taints}
        spec["taints"] = list(unique.values())
        if dice.chance(0.15):
            spec["unschedulable"] = True
            if dice.chance(0.8):
                spec["taints"].append({"key": UNSCHEDULABLE, "effect": "NoSchedule"})
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": _labels(dice, name)},
        "spec": spec,
        "status": status,
    }


def _amounts(dice: Dice, families: set[str]) -> dict[str, str]:
    amounts = {
        "cpu": dice.choice(("1", "4", "6", "7900m")),
        "memory": dice.choice(("2Gi", "8Gi", "15900Mi")),
        "pods": dice.weighted({"110": 8, "5": 2, "3": 1}),
    }
    if dice.chance(0.4):
        amounts["ephemeral-storage"] = dice.choice(("5Gi", "20Gi"))
    if "extended" in families:
        if dice.chance(0.6):
            amounts[GPU] = dice.choice(("1", "2", "4"))
        if dice.chance(0.3):
            amounts[FPGA] = dice.choice(("0", "1", "3"))
        if dice.chance(0.4):
            amounts["hugepages-2Mi"] = dice.choice(("64Mi", "256Mi"))
    if "odd" in families and dice.chance(0.15):
        amounts.pop(dice.choice(("cpu", "memory", "pods")))
    return amounts


def _labels(dice: Dice, name: str) -> dict[str, str]:
    labels = {}
    if dice.chance(0.95):
        labels[HOSTNAME] = name if dice.chance(0.97) else "shared"
    if dice.chance(0.85):
        labels[ZONE] = dice.choice(ZONES)
    if dice.chance(0.5):
        labels[REGION] = dice.choice(REGIONS)
    if dice.chance(0.7):
        labels["disk"] = dice.choice(("ssd", "hdd"))
    if dice.chance(0.6):
        labels["rack"] = dice.choice(("1", "2", "3"))
    if dice.chance(0.5):
        labels["num"] = dice.choice(("1", "5", "10", "x", "007"))
    return labels


def _taint(dice: Dice) -> Manifest:
    key = dice.choice(list(TAINTS))
    return {"key": key, "value": dice.choice(TAINTS[key]), "effect": dice.choice(EFFECTS)}


def _images(dice: Dice) -> list[Manifest]:
    return [
        {"names": [name, f"{name.partition(':')[0]}@sha256:{'0' * 63}1"], "sizeBytes": size}
        for name, size in IMAGES.items()
        if dice.chance(0.4)
    ]
