"""Nodes and pods of a workload case, with a plain fit of its own: it shares no code with the
product.
"""

import itertools
from typing import Any


def key_of(obj):
    return f"{obj['metadata'].get('namespace', 'default')}/{obj['metadata']['name']}"


def milli(text):
    text = str(text)
    return int(text[:-1]) if text.endswith("m") else int(float(text) * 1000)


def mebi(text):
    for suffix, size in (("Gi", 1024), ("Mi", 1)):
        if str(text).endswith(suffix):
            return int(text[:-2]) * size
    return int(text) // 2**20


def requests(pod):
    cpu = memory = 0
    for c in pod["spec"]["containers"]:
        asked = c.get("resources", {}).get("requests", {})
        cpu += milli(asked.get("cpu", 0))
        memory += mebi(asked.get("memory", "0Mi"))
    return cpu, memory, 1


def ports(pod):
    return {
        p["hostPort"]
        for c in pod["spec"]["containers"]
        for p in c.get("ports", [])
        if p.get("hostPort")
    }


def avoids(pod):
    """Labels that a pod keeps off its node (required anti-affinity by host)."""
    terms = (
        pod["spec"]
        .get("affinity", {})
        .get("podAntiAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution", [])
    )
    return [t["labelSelector"]["matchLabels"] for t in terms]


def matches(labels, wanted):
    return all(labels.get(k) == v for k, v in wanted.items())


def tolerated(taint, pod):
    for t in pod["spec"].get("tolerations", []):
        if (
            t.get("key") in (None, taint["key"])
            and (t.get("operator") == "Exists" or t.get("value", "") == taint.get("value", ""))
            and t.get("effect") in (None, "", taint["effect"])
        ):
            return True
    return False


def admits(node, pod):
    """Return the part of the fit without other pods: selectors, taints, cordon."""
    labels = node["metadata"]["labels"]
    if node["spec"].get("unschedulable") and not tolerated(
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, pod
    ):
        return False
    if any(
        t["effect"] in ("NoSchedule", "NoExecute") and not tolerated(t, pod)
        for t in node["spec"].get("taints", [])
    ):
        return False
    if not matches(labels, pod["spec"].get("nodeSelector", {})):
        return False
    terms = (
        pod["spec"]
        .get("affinity", {})
        .get("nodeAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution", {})
        .get("nodeSelectorTerms")
    )
    return not (
        terms
        and not any(
            all(
                (labels.get(e["key"]) in e["values"]) == (e["operator"] == "In")
                for e in t["matchExpressions"]
            )
            for t in terms
        )
    )


class SimulatedCluster:
    """Nodes with the pods that are on them."""

    def __init__(self, nodes, placed):
        self.nodes = {n["metadata"]["name"]: n for n in nodes}
        self.pods: dict[str, Any] = {name: {} for name in self.nodes}
        self.left = {}
        for name, n in self.nodes.items():
            a = n["status"]["allocatable"]
            self.left[name] = [milli(a["cpu"]), mebi(a["memory"]), int(a["pods"])]
        for pod, node in placed:
            self.add(pod, node)

    def add(self, pod, node):
        if node in self.pods:
            self.pods[node][key_of(pod)] = pod
            self.left[node] = [a - b for a, b in zip(self.left[node], requests(pod), strict=True)]

    def remove(self, pod):
        for node, there in self.pods.items():
            if there.pop(key_of(pod), None):
                self.left[node] = [
                    a + b for a, b in zip(self.left[node], requests(pod), strict=True)
                ]

    def fits(self, pod, node):
        if not admits(self.nodes[node], pod) or any(
            b > a for a, b in zip(self.left[node], requests(pod), strict=True)
        ):
            return False
        wanted, mine = ports(pod), avoids(pod)
        for other in self.pods[node].values():
            if (
                wanted & ports(other)
                or any(matches(other["metadata"].get("labels", {}), w) for w in mine)
                or any(matches(pod["metadata"].get("labels", {}), w) for w in avoids(other))
            ):
                return False
        return True

    def fill(self, pods, nodes):
        """Return the largest number of these pods that fit these nodes together (exact for like
        pods and for few different ones).
        """
        shapes = {
            repr(p["spec"].get("containers"))
            + repr(p["spec"].get("affinity"))
            + repr(p["spec"].get("nodeSelector"))
            for p in pods
        }
        if len(shapes) > 1 and len(pods) <= 6 and len(nodes) ** len(pods) <= 20000:
            return max(
                self._some(order, nodes)
                for order in itertools.chain.from_iterable(
                    itertools.combinations(pods, n) for n in range(len(pods), -1, -1)
                )
            )
        best = 0
        for order in (pods, sorted(pods, key=requests, reverse=True), sorted(pods, key=requests)):
            done = []
            for p in order:
                node = next((n for n in nodes if self.fits(p, n)), None)
                if node:
                    self.add(p, node)
                    done.append(p)
            for p in done:
                self.remove(p)
            best = max(best, len(done))
        return best

    def _some(self, pods, nodes):
        """Return len(pods) when all of them fit together, else 0."""

        def go(i):
            if i == len(pods):
                return True
            for n in nodes:
                if self.fits(pods[i], n):
                    self.add(pods[i], n)
                    ok = go(i + 1)
                    self.remove(pods[i])
                    if ok:
                        return True
            return False

        return len(pods) if go(0) else 0
