"""A second, naive implementation of device allocation that the plugin must agree with.

Works on plain objects as users write them, node by node, by recursion without optimisations: every
combination is tried in kube-scheduler's order. Where kube-scheduler is known to be wrong (counters
looked up by pool name alone, forgotten values of distinctAttribute, All beside faulty pools or
used-up devices, admin access that uses counters, devices no longer published) it has the right
behaviour. Only CEL and the parsing of quantities are shared with the plugin.
"""

from fractions import Fraction
from functools import lru_cache
from typing import Any

import msgspec

from scheduler.cel import (
    CelCompileError,
    CelRuntimeError,
    Quantity,
    UnseenDevice,
    compile_selector,
)
from scheduler.objects.devices import Device
from scheduler.plugins.dynamicresources.allocation.selectors import as_cel


class BrokenError(Exception):
    """The attempt ends with an error."""


class TooLargeError(Exception):
    """The number of combinations exceeds the limit of the enumeration."""


# Clusters that need more are left to the step limit of the plugin's own search.
MOST_STEPS = 3000


_compiled = lru_cache(maxsize=1024)(compile_selector)


def _matches(expression, device, driver):
    return _compiled(expression).evaluate(as_cel(device, driver))


def amount(text):
    return Fraction(Quantity.parse(str(text)).nanos, 10**9)


def node_matches(node, name, selector, everywhere):
    if name:
        return node["metadata"]["name"] == name
    if everywhere:
        return True
    if not selector:
        return False
    return any(_term(term, node) for term in selector["nodeSelectorTerms"])


def _term(term, node):
    labels = node["metadata"].get("labels", {})
    wanted = [(labels.get(one["key"]), one) for one in term.get("matchExpressions", ())]
    wanted += [(node["metadata"]["name"], one) for one in term.get("matchFields", ())]
    return bool(wanted) and all(_holds(value, one) for value, one in wanted)


def _holds(value, one):
    operator, values = one["operator"], one.get("values", ())
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
        "Gt": value is not None
        and bool(values)
        and value.isdigit()
        and int(value) > int(values[0]),
        "Lt": value is not None
        and bool(values)
        and value.isdigit()
        and int(value) < int(values[0]),
    }[operator]


class Reference:
    """All slices, classes and allocated claims of a cluster."""

    def __init__(self, slices, classes, claims):
        self.slices = slices
        self.classes = {one["metadata"]["name"]: one for one in classes}
        self.whole: set[tuple[str, str, str]] = set()
        self.shares: dict[tuple[str, str, str], dict[str, Fraction]] = {}
        for claim in claims:
            allocation = claim.get("status", {}).get("allocation") or {}
            for one in allocation.get("devices", {}).get("results", ()):
                key = (one["driver"], one["pool"], one["device"])
                if one.get("adminAccess"):
                    continue
                if one.get("shareID"):
                    taken = self.shares.setdefault(key, {})
                    for name, text in one.get("consumedCapacity", {}).items():
                        taken[name] = taken.get(name, 0) + amount(text)
                else:
                    self.whole.add(key)

    def allocate(self, node, claims):
        """Return [(request, device id, amounts)] by claim, None, or "invalid".

        BrokenError for an error.
        """
        return _Attempt(self, node, claims).run()

    def pools(self, node):
        groups: dict[tuple[str, str], list[Any]] = {}
        for one in self.slices:
            spec = one["spec"]
            if not self._relevant(spec, node):
                continue
            key = (spec["driver"], spec["pool"]["name"])
            group = groups.setdefault(key, [])
            if group and spec["pool"]["generation"] < group[0]["spec"]["pool"]["generation"]:
                continue
            if group and spec["pool"]["generation"] > group[0]["spec"]["pool"]["generation"]:
                group.clear()
            group.append(one)
        found = [pool for key, group in groups.items() if (pool := self._pool(key, group, node))]
        return sorted(found, key=lambda pool: (pool["conditions"], pool["key"]))

    def _relevant(self, spec, node):
        if spec.get("sharedCounters"):
            return True
        if spec.get("perDeviceNodeSelection"):
            return any(self._here(spec, device, node) for device in spec.get("devices", ()))
        return node_matches(
            node, spec.get("nodeName"), spec.get("nodeSelector"), spec.get("allNodes")
        )

    def _reaches(self, spec, node):
        if spec.get("perDeviceNodeSelection"):
            return bool(spec.get("sharedCounters")) or any(
                self._here(spec, device, node) for device in spec.get("devices", ())
            )
        return node_matches(
            node, spec.get("nodeName"), spec.get("nodeSelector"), spec.get("allNodes")
        )

    def _here(self, spec, device, node):
        if not spec.get("perDeviceNodeSelection"):
            return True
        return node_matches(
            node, device.get("nodeName"), device.get("nodeSelector"), device.get("allNodes")
        )

    def _pool(self, key, group, node):
        pool = {"key": key, "fault": "", "devices": [], "sets": {}, "all": [], "conditions": False}
        pool["here"] = any(
            self._reaches(one["spec"], node)
            for one in self.slices
            if (one["spec"]["driver"], one["spec"]["pool"]["name"]) == key
        )
        first = group[0]["spec"]["pool"]
        same = group
        if len(group) != first["resourceSliceCount"]:
            mine = [
                one
                for one in self.slices
                if (one["spec"]["driver"], one["spec"]["pool"]["name"]) == key
            ]
            if any(one["spec"]["pool"]["generation"] > first["generation"] for one in mine):
                return None
            same = [one for one in mine if one["spec"]["pool"]["generation"] == first["generation"]]
            if len(same) != first["resourceSliceCount"]:
                return pool | {"fault": "currently being updated"}
        names = [d["name"] for one in group for d in one["spec"].get("devices", ())]
        sets = [one for s in group for one in s["spec"].get("sharedCounters", ())]
        known = {one["name"]: one["counters"] for one in sets}
        bad = len(names) != len(set(names)) or len(known) != len(sets)
        for one in same:
            for device in one["spec"].get("devices", ()):
                for taken in device.get("consumesCounters", ()):
                    counters = known.get(taken["counterSet"])
                    if counters is None or not set(taken["counters"]) <= set(counters):
                        bad = True
        if bad:
            return pool | {"fault": "currently invalid"}
        for one in sorted(group, key=lambda one: one["metadata"]["name"]):
            for device in one["spec"].get("devices", ()):
                pool["devices"].append((one["spec"], device))
                pool["conditions"] |= bool(device.get("bindingConditions"))
        pool["sets"] = {
            (name, counter): amount(value["value"])
            for name, counters in known.items()
            for counter, value in counters.items()
        }
        pool["all"] = [d for one in same for d in one["spec"].get("devices", ())]
        return pool


class _Attempt:
    def __init__(self, cluster, node, claims):
        self.cluster, self.node, self.claims = cluster, node, claims
        self.pools = cluster.pools(node)
        self.usable = [
            (pool, spec, device)
            for pool in self.pools
            if not pool["fault"]
            for spec, device in pool["devices"]
        ]
        self.steps = 0
        self.chosen = []  # (claim, request, path, place, ask, amounts)

    def run(self):
        asks = [
            [self._asks(index, request) for request in claim["spec"]["devices"].get("requests", ())]
            for index, claim in enumerate(self.claims)
        ]
        self.numbers = {}
        for index, claim in enumerate(asks):
            least = 0
            for alternatives in claim:
                for ask in alternatives:
                    self.numbers[id(ask)] = self._number(index, ask)
                least += min(
                    len(n) if isinstance(n, list) else n
                    for n in (self.numbers[id(a)] for a in alternatives)
                )
            if least > 32:
                raise BrokenError("exceeds the claim limit")
        if self._claim(asks, 0, 0):
            return [
                [(c[2], self._id(c[3]), c[5]) for c in self.chosen if c[0] == index]
                for index in range(len(self.claims))
            ]
        return "invalid" if any(p["fault"] == "currently invalid" for p in self.pools) else None

    def _asks(self, claim, request):
        base = {"claim": claim, "parent": request["name"]}
        if request.get("firstAvailable"):
            return [
                base | {"path": f"{request['name']}/{one['name']}", "spec": one}
                for one in request["firstAvailable"]
            ]
        return [base | {"path": request["name"], "spec": request["exactly"]}]

    def _id(self, place):
        pool, _, device = self.usable[place]
        return (*pool["key"], device["name"])

    def _number(self, claim, ask):
        if ask["spec"].get("allocationMode", "ExactCount") == "ExactCount":
            return ask["spec"].get("count", 1)
        found = [
            place
            for place in range(len(self.usable))
            if self._selected(ask, place) and self._amounts(ask, place) is not None
        ]
        hidden = (pool for pool in self.pools if pool["fault"] and pool["here"])
        return [] if any(self._may_select(ask, pool["key"][0]) for pool in hidden) else found

    def _may_select(self, ask, driver):
        """Return whether an otherwise unknown device of a driver may be selected."""
        one = self.cluster.classes[ask["spec"]["deviceClassName"]]
        for owner in (one["spec"], ask["spec"]):
            for selector in owner.get("selectors", ()):
                try:
                    if not _compiled(selector["cel"]["expression"]).evaluate(UnseenDevice(driver)):
                        return False
                except (CelCompileError, CelRuntimeError):
                    continue
        return True

    def _selected(self, ask, place):
        pool, spec, raw = self.usable[place]
        device = msgspec.convert(raw, Device)
        one = self.cluster.classes[ask["spec"]["deviceClassName"]]
        for owner in (one["spec"], ask["spec"]):
            for selector in owner.get("selectors", ()):
                try:
                    if not _matches(selector["cel"]["expression"], device, pool["key"][0]):
                        return False
                except (CelCompileError, CelRuntimeError) as error:
                    raise BrokenError(str(error)) from error
        return self.cluster._here(spec, raw, self.node)

    def _amounts(self, ask, place):
        asked = (ask["spec"].get("capacity") or {}).get("requests", {})
        capacity = self.usable[place][2].get("capacity", {})
        if not set(asked) <= set(capacity):
            return None
        taken = {}
        for name, offered in capacity.items():
            policy = offered.get("requestPolicy") or {}
            wanted = _round(asked.get(name), offered, policy)
            if _violates(wanted, asked.get(name), policy) or wanted > amount(offered["value"]):
                return None
            taken[name] = wanted
        return taken

    def _has_capacity(self, place, taken, others):
        used = self.cluster.shares.get(self._id(place), {})
        capacity = self.usable[place][2].get("capacity", {})
        return all(
            wanted + used.get(name, 0) + sum(one[name] for one in others)
            <= amount(capacity[name]["value"])
            for name, wanted in taken.items()
        )

    def _claim(self, asks, claim, request):
        if claim == len(asks):
            return True
        if request == len(asks[claim]):
            return self._claim(asks, claim + 1, 0)
        return any(self._fill(asks, claim, request, ask, 0, 0) for ask in asks[claim][request])

    def _fill(self, asks, claim, request, ask, index, start):
        number = self.numbers[id(ask)]
        everything = isinstance(number, list)
        count = len(number) if everything else number
        if not count:
            return False
        if index == count:
            return self._claim(asks, claim, request + 1)
        if sum(c[0] == claim for c in self.chosen) + count - index > 32:
            return False
        places = [number[index]] if everything else range(start, len(self.usable))
        for place in places:
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise TooLargeError
            if self._in_use(ask, claim, place):
                continue
            if not everything and not self._selected(ask, place):
                continue
            if self._take(ask, claim, request, place, everything):
                if self._fill(asks, claim, request, ask, index + 1, place + 1):
                    return True
                self.chosen.pop()
        return False

    def _in_use(self, ask, claim, place):
        shared = self.usable[place][2].get("allowMultipleAllocations")
        mine = [c[0] for c in self.chosen if c[3] == place] if not shared else []
        if ask["spec"].get("adminAccess"):
            return claim in mine
        return bool(mine) or self._id(place) in self.cluster.whole

    def _take(self, ask, claim, request, place, must):
        pool, _, device = self.usable[place]
        taken = self._amounts(ask, place)
        if taken is None:
            return False
        others = (
            [c[5] for c in self.chosen if c[3] == place and not _is_admin(c[4])]
            if device.get("allowMultipleAllocations")
            else ()
        )
        if not _is_admin(ask) and not self._has_capacity(place, taken, others):
            return False
        entry = (claim, request, ask["path"], place, ask, taken)
        self.chosen.append(entry)
        if not self._counters_hold(pool) or not _tolerated(device, ask["spec"]):
            self.chosen.pop()
            return False
        if not self._constraints_hold(claim):
            self.chosen.pop()
            if must:
                raise BrokenError("constraint")
            return False
        return True

    def _counters_hold(self, pool):
        place = self.chosen[-1][3]
        device = self.usable[place][2]
        if not device.get("consumesCounters") or _is_admin(self.chosen[-1][4]):
            return True
        published = {one["name"] for one in pool["all"]}
        used = (*self.cluster.whole, *self.cluster.shares)
        if any(key[:2] == pool["key"] and key[2] not in published for key in used):
            return False
        if device.get("allowMultipleAllocations"):
            shares = sum(c[3] == place and not _is_admin(c[4]) for c in self.chosen)
            if shares > 1 or self._id(place) in self.cluster.shares:
                return True
        left = dict(pool["sets"])
        taken = [
            one
            for one in pool["all"]
            if (*pool["key"], one["name"]) in self.cluster.whole
            or (*pool["key"], one["name"]) in self.cluster.shares
        ]
        names = set()
        for entry in self.chosen:
            other, _, one = self.usable[entry[3]]
            if (
                other is pool
                and not _is_admin(entry[4])
                and not (
                    one.get("allowMultipleAllocations")
                    and (one["name"] in names or self._id(entry[3]) in self.cluster.shares)
                )
            ):
                taken.append(one)
                names.add(one["name"])
        for one in taken:
            for consumed in one.get("consumesCounters", ()):
                for name, counter in consumed["counters"].items():
                    left[consumed["counterSet"], name] -= amount(counter["value"])
        return all(value >= 0 for value in left.values())

    def _constraints_hold(self, claim):
        for one in self.claims[claim]["spec"]["devices"].get("constraints", ()):
            requests = one.get("requests", ())
            values = [
                self._value(c[3], one.get("matchAttribute") or one["distinctAttribute"])
                for c in self.chosen
                if c[0] == claim
                and (not requests or c[4]["parent"] in requests or c[2] in requests)
            ]
            if None in values:
                return False
            if one.get("matchAttribute") and len(set(values)) > 1:
                return False
            if one.get("distinctAttribute") and len(set(values)) < len(values):
                return False
        return True

    def _value(self, place, name):
        pool, _, device = self.usable[place]
        attributes = device.get("attributes", {})
        domain, _, short = name.partition("/")
        found = attributes.get(name) or (
            attributes.get(short) if domain == pool["key"][0] else None
        )
        return None if not found else tuple((k, type(v).__name__, v) for k, v in found.items())


def _is_admin(ask):
    return bool(ask["spec"].get("adminAccess"))


def _tolerated(device, ask):
    for taint in device.get("taints", ()):
        if taint.get("effect") not in ("NoSchedule", "NoExecute"):
            continue
        if not any(_tolerates(one, taint) for one in ask.get("tolerations", ())):
            return False
    return True


def _tolerates(one, taint):
    if one.get("effect") and one["effect"] != taint["effect"]:
        return False
    if one.get("key") and one["key"] != taint["key"]:
        return False
    if one.get("operator", "Equal") == "Exists":
        return True
    return one.get("value", "") == taint.get("value", "")


def _round(asked, offered, policy):
    if asked is None:
        return amount(policy.get("default") or offered["value"])
    wanted = amount(asked)
    limits = policy.get("validRange")
    if limits and limits.get("min"):
        least = amount(limits["min"])
        if wanted < least:
            return least
        if limits.get("step"):
            step = amount(limits["step"])
            return least + step * (-(-(wanted - least) // step))
        return wanted
    return min(
        (v for v in map(amount, policy.get("validValues", ())) if v >= wanted), default=wanted
    )


def _violates(wanted, asked, policy):
    if not policy or (policy.get("default") and wanted == amount(policy["default"])):
        return False
    limits = policy.get("validRange")
    if limits:
        if limits.get("max") and wanted > amount(limits["max"]):
            return True
        least = amount(limits.get("min", 0))
        return bool(limits.get("step")) and (wanted - least) % amount(limits["step"]) != 0
    values = [amount(v) for v in policy.get("validValues", ())]
    return bool(values) and wanted not in values
