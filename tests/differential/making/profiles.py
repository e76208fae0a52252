"""Generated configurations: one default profile, and others that differ from it in many ways."""

from typing import Any

from tests.differential.kinds import Manifest
from tests.differential.making.between import KEYS
from tests.differential.making.placing import node_affinity
from tests.differential.making.words import FPGA, GPU, Dice

SCORING = (
    "TaintToleration",
    "NodeAffinity",
    "NodeResourcesFit",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
)
# Disabling one of these at all points changes decisions without failing the others.
REMOVABLE = (
    *SCORING,
    "NodeUnschedulable",
    "NodePorts",
    "VolumeZone",
    "NodeVolumeLimits",
    "VolumeRestrictions",
    "DynamicResources",
    "DefaultPreemption",
    "NodeDeclaredFeatures",
    "NodeName",
)
# Plugins that may lack their pre-filter alone: some compute on demand, others fail each pod.
PREPARING = {
    "preFilter": (
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
        "NodeDeclaredFeatures",
    ),
    "preScore": SCORING[:6],
}
BROKEN = 0.06


def configuration(dice: Dice, count: int) -> Manifest:
    """Return fields of a KubeSchedulerConfiguration with `count` profiles, the first the
    default.
    """
    profiles: list[Manifest] = [{"schedulerName": "default-scheduler"}]
    for number in range(1, count):
        profile: Manifest = {"schedulerName": f"profile-{number}", "pluginConfig": _args(dice)}
        if dice.chance(0.7):
            profile["plugins"] = _plugins(dice)
        profiles.append(profile)
    return {"profiles": profiles}


def _plugins(dice: Dice) -> Manifest:
    found: Manifest = {}
    weights = [
        {"name": name, "weight": dice.choice((1, 2, 5, 20))} for name in dice.some(SCORING, 3)
    ]
    if weights:
        found["score"] = {"enabled": weights}
        if dice.chance(0.5):
            found["score"]["disabled"] = [{"name": "*"}]
    if dice.chance(0.6):
        removed = dice.some([n for n in REMOVABLE if all(n != w["name"] for w in weights)], 3, 1)
        found["multiPoint"] = {"disabled": [{"name": name} for name in removed]}
    for point, names in PREPARING.items():
        if dice.chance(BROKEN):
            found[point] = {"disabled": [{"name": dice.choice(names)}]}
    return found


def _args(dice: Dice) -> list[Manifest]:
    """Return args of some plugins."""
    makers: dict[str, Any] = {
        "NodeResourcesFit": _fit,
        # Not a resource that a device class serves: kube-scheduler 1.36.3 panics with a nil pointer
        # then.
        "NodeResourcesBalancedAllocation": lambda _: {
            "resources": [{"name": name} for name in dice.some(("cpu", "memory", FPGA), 3, 1)]
        },
        "InterPodAffinity": lambda _: {
            "hardPodAffinityWeight": dice.choice((0, 1, 50, 100)),
            "ignorePreferredTermsOfExistingPods": dice.chance(0.5),
        },
        "PodTopologySpread": _spread,
        "NodeAffinity": lambda _: {"addedAffinity": _added(dice)},
        "DefaultPreemption": lambda _: {"minCandidateNodesPercentage": dice.choice((0, 10, 100))},
    }
    return [{"name": name, "args": makers[name](dice)} for name in dice.some(makers, 4, 1)]


def _fit(dice: Dice) -> Manifest:
    kind = dice.choice(("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    resources = [
        {"name": name, "weight": dice.choice((1, 2, 10))}
        for name in dice.some(("cpu", "memory", GPU, "ephemeral-storage"), 3, 1)
    ]
    strategy: Manifest = {"type": kind, "resources": resources}
    if kind == "RequestedToCapacityRatio":
        points = sorted(dice.some(range(0, 101, 5), 4, 1))
        strategy["requestedToCapacityRatio"] = {
            "shape": [{"utilization": at, "score": dice.randint(0, 10)} for at in points]
        }
    found: Manifest = {"scoringStrategy": strategy}
    if dice.chance(0.2):
        found["ignoredResources"] = [GPU]
    if dice.chance(0.1):
        found["ignoredResourceGroups"] = ["example.com"]
    return found


def _spread(dice: Dice) -> Manifest:
    constraints = {}
    for _ in range(dice.randint(1, 2)):
        one = {
            "topologyKey": dice.weighted(KEYS),
            "maxSkew": dice.choice((1, 2, 5)),
            "whenUnsatisfiable": dice.choice(("DoNotSchedule", "ScheduleAnyway", "ScheduleAnyway")),
        }
        constraints[(one["topologyKey"], one["whenUnsatisfiable"])] = one
    return {"defaultingType": "List", "defaultConstraints": list(constraints.values())}


def _added(dice: Dice) -> Manifest:
    """Return node affinity without numbers that do not parse: the scheduler would not start."""
    found = node_affinity(dice)
    text = str(found)
    return found if "'x'" not in text else {}
