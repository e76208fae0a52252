"""Generated cases: a small cluster, its placed pods, and the pods to schedule.

Same seed, same case.
"""

from scheduler.base.release import V1_37, Release
from tests.differential.case import Case
from tests.differential.kinds import Manifest
from tests.differential.making.devices import Devices
from tests.differential.making.newerdevices import NewerDevices
from tests.differential.making.nodes import node
from tests.differential.making.owners import budgets, own, owners
from tests.differential.making.pods import pod
from tests.differential.making.storage import Storage
from tests.differential.making.words import Dice

# Features by how often a case uses them; `FAMILIES` of a run can be fewer.
FAMILIES = {
    "extended": 0.3,
    "sidecars": 0.25,
    "taints": 0.3,
    "placing": 0.35,
    "ports": 0.2,
    "images": 0.2,
    "affinity": 0.35,
    "spread": 0.35,
    "owners": 0.25,
    "priority": 0.4,
    "volumes": 0.25,
    "devices": 0.2,
    "features": 0.1,
    "odd": 0.1,
}
START = "2026-01-{:02}T0{}:00:00Z"


def make_case(seed: str, families: dict[str, float], profiles: list[str], release: Release) -> Case:
    """Return the case of this seed: features by their share, pods of these profiles, and fields
    that the release of the API server accepts.
    """
    dice = Dice(seed)
    chosen = {name for name, share in families.items() if dice.chance(share)}
    nodes = [node(dice, f"n{number}", chosen) for number in range(_node_count(dice))]
    names = [one["metadata"]["name"] for one in nodes]
    controllers = owners(dice, chosen)
    storage = Storage(dice, names) if "volumes" in chosen else None
    newer = NewerDevices(Dice(f"{seed}/newer devices")) if release >= V1_37 else None
    devices = Devices(dice, nodes, newer) if "devices" in chosen else None
    existing = [
        _existing(dice, f"e{number}", names, chosen, storage)
        for number in range(_pod_count(dice, len(nodes), chosen))
    ]
    _free_ports(existing)
    pods = []
    for number in range(dice.randint(2, 5)):
        one = pod(dice, f"p{number}", chosen)
        one["spec"]["schedulerName"] = _profile(dice, profiles)
        own(dice, one, controllers)
        if storage is not None:
            storage.add_volumes(one)
        if devices is not None:
            devices.add_claims(one)
        if dice.chance(0.02):
            one["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
        elif names and dice.chance(0.06):
            one["status"] = {"nominatedNodeName": dice.choice((*names, "gone"))}
        pods.append(one)
    stored = storage.objects() if storage is not None else []
    claimed = devices.objects() if devices is not None else []
    others = [*controllers, *budgets(dice, chosen), *stored, *claimed]
    return Case(seed, sorted(chosen), [*nodes, *others, *existing], pods)


def _node_count(dice: Dice) -> int:
    return dice.weighted({0: 0.3, 1: 1, 2: 3, 3: 5, 4: 5, 5: 3, 7: 1, 9: 0.5})


def _pod_count(dice: Dice, nodes: int, families: set[str]) -> int:
    """Return the number of placed pods; nodes are full in cases of preemption."""
    least = 2 if "priority" in families else 0
    return min(dice.randint(least * nodes, 5 * nodes), 28)


def _profile(dice: Dice, profiles: list[str]) -> str:
    return profiles[0] if len(profiles) == 1 or dice.chance(0.6) else dice.choice(profiles[1:])


def _existing(
    dice: Dice, name: str, nodes: list[str], families: set[str], storage: Storage | None
) -> Manifest:
    """Return a placed pod, in any state of its lifecycle."""
    one = pod(dice, name, families)
    for container in one["spec"]["containers"]:
        requests = container["resources"]["requests"]
        # Most pods request little, otherwise few would fit; with priorities, nodes are full for
        # some pods.
        if (
            dice.chance(0.3 if "priority" in families else 0.6)
            and "cpu" in requests
            and "cpu" not in container["resources"]["limits"]
        ):
            requests["cpu"] = dice.choice(("10m", "100m", "200m"))
    if "priority" in families and dice.chance(0.7):
        one["spec"]["priority"] = dice.choice((-5, 0, 1))
    one["spec"]["nodeName"] = dice.choice(nodes) if dice.chance(0.98) else "nowhere"
    status: Manifest = {"phase": "Running"}
    if dice.chance(0.8):
        # All start times differ: among equal pods the order of arrival decides which is evicted.
        status["startTime"] = START.format(1 + int(name[1:]) % 28, dice.randint(0, 9))
    if dice.chance(0.05):
        status["phase"] = dice.choice(("Succeeded", "Failed"))
    elif dice.chance(0.1):
        one["metadata"]["deletionTimestamp"] = "now"
    if "sidecars" in families and dice.chance(0.3):
        _resize(dice, one, status)
    one["status"] = status
    if storage is not None:
        storage.add_volumes(one)
    return one


def _free_ports(pods: list[Manifest]) -> None:
    """Remove duplicate host ports among the pods of a node: no scheduler would place them so.

    kube-scheduler drops such a port when one of the two pods is deleted.
    """
    taken = set()
    for one in pods:
        spec = one["spec"]
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            free = []
            for port in container.get("ports", ()):
                place = (spec["nodeName"], port["protocol"], port.get("hostPort"))
                if "hostPort" not in port or place not in taken:
                    free.append(port)
                    taken.add(place)
            if "ports" in container:
                container["ports"] = free


def _resize(dice: Dice, pod: Manifest, status: Manifest) -> None:
    """Give the containers other allocated resources than those in the spec."""
    statuses = []
    for container in pod["spec"]["containers"]:
        if not dice.chance(0.8):
            continue
        actual = {"cpu": dice.choice(("50m", "700m")), "memory": dice.choice(("100Mi", "900Mi"))}
        one: Manifest = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {}},
        }
        if dice.chance(0.8):
            one["resources"] = {"requests": actual}
        if dice.chance(0.7):
            one["allocatedResources"] = {"cpu": dice.choice(("300m", "50m")), "memory": "300Mi"}
        statuses.append(one)
    status["containerStatuses"] = statuses
    if dice.chance(0.3):
        reason = dice.choice(("Infeasible", "Deferred"))
        status["conditions"] = [
            {"type": "PodResizePending", "status": "True", "reason": reason, "message": "m"}
        ]
