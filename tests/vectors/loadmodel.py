"""A slow model of load-aware placement over plain manifests, written from the notes alone.

It shares only the reading of quantities with the plugin. `peer` states whether a percentile that is
not reported leaves the measured usage out (Koordinator) or is replaced by a reported figure (D17).
Nodes, reports and pods are results of `yaml.safe_load`, with times as seconds since the epoch.
"""

import json
import math
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from scheduler.objects.quantity import resource_amount

FACTORS = {"cpu": 85, "memory": 70}
CLASSES = ("koord-prod", "koord-mid", "koord-batch", "koord-free")
BATCH = {"cpu": "kubernetes.io/batch-cpu", "memory": "kubernetes.io/batch-memory"}
MID = {"cpu": "kubernetes.io/mid-cpu", "memory": "kubernetes.io/mid-memory"}
DEFAULTS = {"cpu": 250, BATCH["cpu"]: 250, "memory": 200 << 20, BATCH["memory"]: 200 << 20}
FAR = float("inf")


def away(value):
    """Round halves away from zero."""
    return math.floor(value + 0.5) if value - math.floor(value) != 0.5 else math.floor(value) + 1


def amounts(given):
    """Read a resource list."""
    return {name: max(0, resource_amount(name, value)) for name, value in (given or {}).items()}


def class_of(pod):
    """Return the priority class of a pod."""
    labels = pod["metadata"].get("labels") or {}
    named = ""
    if "koordinator.sh/priority-class" in labels:
        label = labels["koordinator.sh/priority-class"]
        named = label if label in CLASSES else ""
    else:
        priority = pod["spec"].get("priority") or 0
        for low, name in ((9000, 0), (7000, 1), (5000, 2), (3000, 3)):
            if low <= priority <= low + 999:
                named = CLASSES[name]
    if named:
        return named
    qos = labels.get("koordinator.sh/qosClass")
    if qos not in ("LSE", "LSR", "LS", "BE", "SYSTEM"):
        qos = {"Guaranteed": "LSR", "Burstable": "LS", "BestEffort": "BE"}[kube_qos(pod)]
    return "koord-batch" if qos == "BE" else "koord-prod"


def kube_qos(pod):
    """Return the class in the status, else BestEffort or Burstable (which are all that matters)."""
    given = (pod.get("status") or {}).get("qosClass")
    if given:
        return given
    spec = pod["spec"]
    holders = [*(spec.get("containers") or []), *(spec.get("initContainers") or []), spec]
    for holder in holders:
        for side in ("requests", "limits"):
            asked = amounts(((holder.get("resources") or {}).get(side)) or {})
            if asked.get("cpu") or asked.get("memory"):
                return "Burstable"
    return "BestEffort"


def effective(pod, side):
    """Return requests or limits of a whole pod."""
    spec = pod["spec"]

    def own(container):
        return amounts((container.get("resources") or {}).get(side))

    def plus(one, other):
        return {name: one.get(name, 0) + other.get(name, 0) for name in {*one, *other}}

    total: dict[str, int] = {}
    for container in spec.get("containers") or []:
        total = plus(total, own(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") == "Always":
            total, sidecars = plus(total, own(container)), plus(sidecars, own(container))
            now = sidecars
        else:
            now = plus(own(container), sidecars)
        peak = {name: max(peak.get(name, 0), now.get(name, 0)) for name in {*peak, *now}}
    total = {name: max(total.get(name, 0), peak.get(name, 0)) for name in {*total, *peak}}
    level = amounts((spec.get("resources") or {}).get(side))
    total |= {n: a for n, a in level.items() if n in ("cpu", "memory") or "hugepages-" in n}
    for name, more in amounts(spec.get("overhead")).items():
        if side == "requests" or total.get(name):
            total[name] = total.get(name, 0) + more
    return total


@dataclass
class Model:
    """The rules for one set of arguments (as given, defaults are added here)."""

    args: dict[str, Any]
    peer: bool = False
    resources: list[str] = field(default_factory=list)

    def __post_init__(self):
        """Fill in the defaults."""
        given = {key: value for key, value in self.args.items() if value is not None}
        self.args = given
        self.factors = FACTORS | given.get("estimatedScalingFactors", {})
        self.thresholds = given.get("usageThresholds") or {"cpu": 65, "memory": 95}
        self.dominant = given.get("dominantResourceWeight", 0)
        self.weights = given.get("resourceWeights") or (
            {} if self.dominant else {"cpu": 1, "memory": 1}
        )
        self.aggregated = given.get("aggregated") or {}
        maps = (self.factors, self.thresholds, given.get("prodUsageThresholds") or {})
        names = {"cpu", "memory", *given.get("supportedResources", ())}
        names = names.union(*maps, self.weights, self.aggregated.get("usageThresholds") or {})
        self.resources = sorted(names)

    def estimate(self, pod):
        """Return the estimated usage of a pod."""
        requests, limits, kind = effective(pod, "requests"), effective(pod, "limits"), class_of(pod)
        factors = dict(self.factors)
        text = annotation(pod, "load-estimated-scaling-factors")
        if self.args.get("allowCustomizeEstimation") and text:
            with suppress(ValueError):
                factors |= json.loads(text)
        found = dict.fromkeys(self.resources, 0)
        for resource in {*factors} & {*self.resources}:
            names = {"koord-batch": BATCH, "koord-mid": MID, "koord-free": {}}
            name = names[kind].get(resource, "") if kind in names else resource
            limit = limits.get(name, 0)
            wanted = max(requests.get(name, 0), limit)
            if not wanted:
                found[resource] = DEFAULTS.get(name, 0)
                continue
            scaled = away(float(wanted) * float(factors[resource]) / 100)
            found[resource] = max(0, min(scaled, limit) if limit else scaled)
        return found

    def deadline(self, pod, assigned):
        """Return the end of the forced estimate of a pod, or minus infinity."""
        after = {
            "scheduled": self.args.get("estimatedSecondsAfterPodScheduled") or 0,
            "initialized": self.args.get("estimatedSecondsAfterInitialized") or 0,
        }
        if self.args.get("allowCustomizeEstimation"):
            for key, name in (
                ("scheduled", "after-pod-scheduled"),
                ("initialized", "after-initialized"),
            ):
                text = annotation(pod, f"load-estimated-seconds-{name}")
                if text.isascii() and text.isdigit():
                    after[key] = int(text)
        initialized = since(pod, "Initialized")
        if after["initialized"] > 0 and initialized is not None:
            return initialized + after["initialized"]
        return assigned + after["scheduled"] if after["scheduled"] > 0 else -FAR

    def sums(self, report, pods):
        """Return the sums of one node; `pods` are the manifests on it."""
        zero = dict.fromkeys(self.resources, 0)
        found = {k: dict(zero) for k in ("nodeDelta", "prodDelta", "nodeEstimated", "prodUsage")}
        names: dict[str, list[str]] = {"podsInNodeDelta": [], "podsInProdDelta": []}
        if report is None:
            return found | names
        status = report.get("status") or {}
        updated = status.get("updateTime")
        updated = -FAR if updated is None else updated
        policy = (report.get("spec") or {}).get("metricCollectPolicy") or {}
        interval = policy.get("reportIntervalSeconds")
        interval = 60 if interval is None else max(0, interval)
        usage: dict[tuple[str, str], dict[str, int]] = {}
        prod: set[tuple[str, str]] = set()
        for one in status.get("podsMetric") or []:
            resources = (one.get("podUsage") or {}).get("resources")
            if resources:
                key = (one.get("namespace", ""), one.get("name", ""))
                usage[key] = amounts(resources)
                (prod.add if one.get("priority") == "koord-prod" else prod.discard)(key)
        for pod in pods:
            meta = pod["metadata"]
            phase = (pod.get("status") or {}).get("phase")
            if not pod["spec"].get("nodeName") or phase in ("Succeeded", "Failed"):
                continue
            if annotation(pod, "reserve-pod") == "true":
                continue
            key, estimate = (meta.get("namespace", "default"), meta["name"]), self.estimate(pod)
            assigned = since(pod, "PodScheduled")
            assigned = FAR if assigned is None else assigned
            unseen = (
                key not in usage
                or assigned > updated - interval
                or self.deadline(pod, assigned) > updated
            )
            is_prod = class_of(pod) == "koord-prod"
            used = usage.get(key, {})
            over = {r: max(0, estimate[r] - used.get(r, 0)) if unseen else 0 for r in zero}
            prod_over = dict(zero)
            if is_prod:
                prod_over = estimate if key in usage and key not in prod else over
            for r in self.resources:
                found["nodeEstimated"][r] += estimate[r]
                found["nodeDelta"][r] += over[r]
                found["prodDelta"][r] += prod_over[r]
                if is_prod and key in prod:
                    found["prodUsage"][r] += used.get(r, 0)
            if any(over.values()):
                names["podsInNodeDelta"].append(meta["name"])
            if any(prod_over.values()):
                names["podsInProdDelta"].append(meta["name"])
        if self.args.get("prodUsageIncludeSys"):
            system = ((status.get("nodeMetric") or {}).get("systemUsage") or {}).get("resources")
            for r, more in amounts(system).items():
                if r in found["prodUsage"]:
                    found["prodUsage"][r] += more
        return found | names

    def picked(self, report, kind, duration_s):
        """Return (usage, whether it has the requested percentile)."""
        info = (report.get("status") or {}).get("nodeMetric") or {}
        average = amounts((info.get("nodeUsage") or {}).get("resources"))
        known = {}
        for window in info.get("aggregatedNodeUsages") or []:
            resources = ((window.get("usage") or {}).get(kind) or {}).get("resources")
            if resources:
                known[window["duration"]] = amounts(resources)
        if not duration_s:
            return (known[max(known)] if known else average), True
        if duration_s in known:
            return known[duration_s], True
        longer = [length for length in known if length > duration_s]
        return (known[min(longer)] if longer else average), False

    def used(self, report, pods, pod, *, prod, by, estimates=True):
        """Return the usage that a decision starts from, the pod's own included."""
        sums, estimate = self.sums(report, pods), self.estimate(pod)
        if prod:
            start, delta = sums["prodUsage"], sums["prodDelta"]
        else:
            kind, duration_s = by or ("", 0)
            start, exact = self.picked(report, kind, duration_s)
            delta = sums["nodeDelta"]
            if self.peer and not exact:
                start, delta = {}, sums["nodeEstimated"]
        if not estimates:
            return {r: start.get(r, 0) for r in self.resources}
        return {r: start.get(r, 0) + delta[r] + estimate[r] for r in self.resources}

    def filter(self, node, report, pods, pod, now):
        """Return the reason why a node is rejected, "" when it passes."""
        if any(o.get("kind") == "DaemonSet" for o in pod["metadata"].get("ownerReferences") or []):
            return ""
        plain, prod = self.thresholds, self.args.get("prodUsageThresholds") or {}
        own = self.aggregated
        by, by_map = own.get("usageAggregationType"), own.get("usageThresholds") or {}
        duration = own.get("usageAggregatedDuration") or 0
        custom = read(annotation(node, "usage-thresholds"))
        plain = custom.get("usageThresholds") or plain
        prod = custom.get("prodUsageThresholds") or prod
        other = custom.get("aggregatedUsage") or {}
        if other.get("usageThresholds") and other.get("usageAggregationType"):
            by, by_map = other["usageAggregationType"], other["usageThresholds"]
            duration = other.get("usageAggregatedDuration") or 0
        is_prod = class_of(pod) == "koord-prod" and any(prod.get(r) for r in self.resources)
        is_aggregated = not is_prod and bool(by and by_map)
        chosen = prod if is_prod else by_map if is_aggregated else plain
        if not any(chosen.get(r) for r in self.resources) or report is None:
            return ""
        expired = self.expired(report, now)
        if self.args.get("filterExpiredNodeMetrics") is not False and expired:
            allowed = self.args.get("enableScheduleWhenNodeMetricsExpired")
            return "" if allowed else "node(s) nodeMetric expired"
        if (report.get("status") or {}).get("nodeMetric") is None:
            return ""
        used = self.used(
            report,
            pods,
            pod,
            prod=is_prod,
            by=(by, duration) if is_aggregated else None,
            estimates=self.args.get("estimateInFilter", True),
        )
        offered = self.offered(node)
        for r in self.resources:
            limit = chosen.get(r, 0)
            if limit and offered[r] and away(used[r] / offered[r] * 100) > limit:
                return f"node(s) {r} {'aggregated ' if is_aggregated else ''}usage exceed threshold"
        return ""

    def score(self, node, report, pods, pod, now):
        """Return the score of a node."""
        if report is None or self.expired(report, now):
            return 0
        if (report.get("status") or {}).get("nodeMetric") is None:
            return 0
        prod = self.args.get("scoreAccordingProdUsage") and class_of(pod) == "koord-prod"
        own = self.aggregated
        by = (own.get("scoreAggregationType"), own.get("scoreAggregatedDuration") or 0)
        used = self.used(report, pods, pod, prod=prod, by=by if by[0] else None)
        offered = self.offered(node)
        packs = self.args.get("scoringStrategy") == "MostUsed"
        shares = {}
        for r in self.resources:
            left = used[r] if packs else offered[r] - used[r]
            fits = offered[r] and used[r] <= offered[r]
            shares[r] = left * 100 // offered[r] if fits else 0
        total = sum(self.weights.get(r, 0) * shares[r] for r in self.resources)
        total += self.dominant * min(shares.values())
        parts = sum(self.weights.get(r, 0) for r in self.resources) + self.dominant
        return total // parts if parts else 0

    def expired(self, report, now):
        """Return whether a report is too old."""
        updated = (report.get("status") or {}).get("updateTime")
        limit = self.args.get("nodeMetricExpirationSeconds") or 180
        return updated is None or now - updated >= limit

    def offered(self, node):
        """Return the base of percentages."""
        given = dict((node.get("status") or {}).get("allocatable") or {})
        given |= read(annotation(node, "raw-allocatable", "node.koordinator.sh"))
        return dict.fromkeys(self.resources, 0) | {
            n: a for n, a in amounts(given).items() if n in self.resources
        }


def read(text):
    """Read an annotation; durations in it become seconds."""
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return seconds_for_durations(found)


def seconds_for_durations(value):
    """Replace Go durations of known fields by seconds, at any depth."""
    if isinstance(value, list):
        return [seconds_for_durations(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: duration_s(item)
        if key in ("duration", "usageAggregatedDuration", "scoreAggregatedDuration")
        else seconds_for_durations(item)
        for key, item in value.items()
    }


def duration_s(given):
    """Read a duration: `5m0s`, or `{"seconds": 300}`."""
    if isinstance(given, dict):
        return given["seconds"]
    total, number = 0.0, ""
    for char in given:
        if char in "0123456789.":
            number += char
        else:
            total += float(number) * {"h": 3600, "m": 60, "s": 1}[char]
            number = ""
    return total


def annotation(thing, name, domain="scheduling.koordinator.sh"):
    """Return an annotation, "" for none."""
    return (thing["metadata"].get("annotations") or {}).get(f"{domain}/{name}", "")


def since(pod, condition):
    """Return since when a condition is True, None when it is not."""
    for one in (pod.get("status") or {}).get("conditions") or []:
        if one["type"] == condition and one["status"] == "True":
            return one.get("lastTransitionTime")
    return None
