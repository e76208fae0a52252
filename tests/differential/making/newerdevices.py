"""Device features that kube-scheduler has since 1.37: DeviceTaintRules and fractional ranges.

They are drawn from a random source of their own: the other objects of a case are equal on every
release.
"""

from tests.differential.kinds import Manifest
from tests.differential.making.words import Dice
from tests.property.devicemaking import GPU, NIC

# Amounts of the capacity `share`: below the minimum, on a step, between steps, above the maximum,
# and one that is finer than 1m, which ends the attempt with an error.
SHARES = ("100m", "250m", "600m", "1", "1300m", "1800m", "3", "5", "1500u")
POLICIES: tuple[Manifest | None, ...] = (
    None,
    {"default": "500m", "validRange": {"min": "250m", "step": "250m", "max": "3"}},
    {"default": "250m", "validRange": {"min": "100m", "step": "150m"}},
    {"default": "1", "validRange": {"min": "500m", "max": "2500m"}},
    {"default": "1", "validRange": {"min": "1", "step": "1", "max": "3"}},
    {"default": "1", "validValues": ["1", "2"]},  # the API server refuses fractions here
)


class NewerDevices:
    """Adds the features to devices and claims; `dice` belongs to this object alone."""

    def __init__(self, dice: Dice) -> None:
        self._dice = dice

    def divide(self, device: Manifest) -> None:
        """Give a device that several claims may share the capacity `share` of 4."""
        dice = self._dice
        if not device.get("allowMultipleAllocations") or not dice.chance(0.7):
            return
        share: Manifest = {"value": "4"}
        if policy := dice.choice(POLICIES):
            share["requestPolicy"] = policy
        device["capacity"] = {**device["capacity"], "share": share}

    def request_share(self, request: Manifest) -> None:
        """Request an amount of `share` in some requests; devices without it do not qualify."""
        if self._dice.chance(0.25):
            amounts = request.setdefault("capacity", {}).setdefault("requests", {})
            amounts["share"] = self._dice.choice(SHARES)

    def taint_rules(self, slices: list[Manifest]) -> list[Manifest]:
        """Return rules that select by driver, pool and device, all devices, or none."""
        return [self._rule(number, slices) for number in range(self._dice.choice((0, 1, 1, 2, 3)))]

    def _rule(self, number: int, slices: list[Manifest]) -> Manifest:
        dice = self._dice
        effect = dice.weighted({"NoSchedule": 3, "NoExecute": 2, "None": 1})
        taint = {"key": dice.choice(("bad", "other")), "value": "yes", "effect": effect}
        spec: Manifest = {"taint": taint}
        if (selector := self._selector(slices)) is not None:
            spec["deviceSelector"] = selector
        return {"kind": "DeviceTaintRule", "metadata": {"name": f"rule-{number}"}, "spec": spec}

    def _selector(self, slices: list[Manifest]) -> Manifest | None:
        """Return a selector; None selects no device, an empty one all devices."""
        dice = self._dice
        full = [one["spec"] for one in slices if one["spec"].get("devices")]
        sort = dice.weighted({"none": 1, "all": 1, "driver": 2, "pool": 3, "device": 4})
        if sort == "none":
            return None
        if sort == "all" or not full:
            return {}
        if sort == "driver":
            return {"driver": dice.choice((GPU, NIC))}
        one = dice.choice(full)
        selector: Manifest = {"pool": one["pool"]["name"]}
        if dice.chance(0.6):
            selector["driver"] = one["driver"]
        if sort == "device":
            selector["device"] = dice.choice(one["devices"])["name"]
        return selector
