"""Generated containers: requests of all kinds, init containers, overhead, ports, images."""

import math
from fractions import Fraction

from tests.differential.kinds import Manifest
from tests.differential.making.nodes import IMAGES
from tests.differential.making.words import CPUS, FPGA, GPU, MEMORIES, Dice

PORTS = (80, 443, 8080, 53)
ADDRESSES = ("", "0.0.0.0", "10.1.2.3", "127.0.0.1", "::")
OTHER_IMAGES = ("registry.example.com/app", "registry.example.com/big", "elsewhere/thing:3")


def add_containers(dice: Dice, spec: Manifest, families: set[str]) -> None:
    """Fill in the containers of a pod's spec and its other requests."""
    spec["containers"] = [
        _container(dice, f"c{number}", families)
        for number in range(dice.weighted({1: 6, 2: 3, 3: 1}))
    ]
    if "sidecars" in families:
        inits = [
            _init_container(dice, f"i{number}", families)
            for number in range(dice.weighted({0: 3, 1: 4, 2: 2, 3: 1}))
        ]
        if inits:
            spec["initContainers"] = inits
        if dice.chance(0.2):
            spec["overhead"] = {"cpu": "120m", "memory": "100Mi"}
        if dice.chance(0.25):
            spec["resources"] = _pod_level(dice, spec)
    if "features" in families and dice.chance(0.3):
        exit_codes = {"operator": "In", "values": [42]}
        rule = {"action": "RestartAllContainers", "exitCodes": exit_codes}
        spec["containers"][0] |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}


def _container(dice: Dice, name: str, families: set[str]) -> Manifest:
    found: Manifest = {"name": name, "image": "registry.example.com/none:1"}
    if "images" in families:
        found["image"] = dice.choice((*IMAGES, *OTHER_IMAGES))
    requests: dict[str, str] = {}
    if dice.chance(0.8):
        requests["cpu"] = dice.choice(CPUS)
    if dice.chance(0.75):
        requests["memory"] = dice.choice(MEMORIES)
    if dice.chance(0.1):
        requests["ephemeral-storage"] = dice.choice(("1Gi", "6Gi"))
    limits: dict[str, str] = {}
    if "extended" in families:
        if dice.chance(0.3):
            limits[GPU] = dice.choice(("1", "2", "0"))
        if dice.chance(0.1):
            limits[FPGA] = "1"
        if dice.chance(0.15) and requests:
            limits["hugepages-2Mi"] = dice.choice(("32Mi", "128Mi"))
            requests.setdefault("cpu", "100m")
    if dice.chance(0.05):
        limits["cpu"] = "3"
    found["resources"] = {"requests": {**requests, **_extended(limits)}, "limits": limits}
    if "ports" in families and dice.chance(0.7):
        found["ports"] = _ports(dice, PORTS[int(name[1:]) % 2 :: 2])
    return found


def _extended(limits: dict[str, str]) -> dict[str, str]:
    return {name: amount for name, amount in limits.items() if name != "cpu"}


def _init_container(dice: Dice, name: str, families: set[str]) -> Manifest:
    found = _container(dice, name, families)
    if dice.chance(0.5):
        found["restartPolicy"] = "Always"
    return found


def _pod_level(dice: Dice, spec: Manifest) -> Manifest:
    """Return requests of the pod as a whole: as the API requires, at least those of its
    containers.
    """
    containers = [*spec["containers"], *spec.get("initContainers", ())]
    requests = {}
    for name, more in (("cpu", ("0", "200m", "1")), ("memory", ("0", "100Mi", "1Gi"))):
        if dice.chance(0.75):
            asked = [_asked(one, name) for one in containers]
            whole = sum(map(_as_number, asked)) + _as_number(dice.choice(more))
            requests[name] = f"{math.ceil(whole * 1000)}m"
    return {"requests": requests or {"cpu": "20"}}


def _asked(container: Manifest, name: str) -> str:
    """Return a container's request; the API server uses a limit if there is no request."""
    resources = container["resources"]
    return str(resources["requests"].get(name, resources["limits"].get(name, "0")))


def _as_number(quantity: str) -> Fraction:
    """Return a quantity in its unit; memory in bytes."""
    units: dict[str, int | Fraction] = {
        "m": Fraction(1, 1000),
        "Mi": 2**20,
        "Gi": 2**30,
        "M": 10**6,
    }
    for suffix, factor in units.items():
        if quantity.endswith(suffix):
            return Fraction(quantity.removesuffix(suffix)) * factor
    return Fraction(quantity)


def _ports(dice: Dice, ports: tuple[int, ...]) -> list[Manifest]:
    found = {}
    for _ in range(dice.weighted({1: 4, 2: 1})):
        port = dice.choice(ports)
        one: Manifest = {"containerPort": port, "protocol": dice.choice(("TCP", "TCP", "UDP"))}
        if dice.chance(0.9):
            one["hostPort"] = port
            address = dice.choice(ADDRESSES)
            if address:
                one["hostIP"] = address
        found[(port, one["protocol"])] = one
    return list(found.values())
