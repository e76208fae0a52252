"""The objects in a phase of a workload case, and the invariants of every correct scheduler
there.
"""

import collections

from tests.vectors.workloadcluster import SimulatedCluster, key_of


class Phase:
    """The objects of phase `index` (of the case and its steps), together with an observation
    of it.
    """

    def __init__(self, case, index, obs):
        objects, self.deleted = {}, set()
        for o in case["objects"]:
            objects[(o["kind"], key_of(o))] = o
        self.new = set(objects) if index == 0 else set()
        for i, step in enumerate(case["steps"][:index]):
            for kind, space, name in step.get("delete", []):
                key = (kind, f"{space}/{name}")
                if kind != "PodGroup":  # a finalizer keeps a group as long as it has pods
                    objects.pop(key, None)
                self.deleted.add(key)
            for o in step.get("create", []):
                objects[(o["kind"], key_of(o))] = o
                if i == index - 1:
                    self.new.add((o["kind"], key_of(o)))
        self.obs = obs
        self.pods = {k: o for (kind, k), o in objects.items() if kind == "Pod"}
        self.groups = {k: o for (kind, k), o in objects.items() if kind == "PodGroup"}
        self.nodes = [o for (kind, _), o in objects.items() if kind == "Node"]
        self.budgets = [o for (kind, _), o in objects.items() if kind == "PodDisruptionBudget"]
        self.at = {k: v["node"] for k, v in obs["pods"].items() if v["node"] and k in self.pods}
        self.missing = set(self.pods) - set(obs["pods"])

    def group_of(self, pod):
        name = pod["spec"].get("schedulingGroup", {}).get("podGroupName")
        return f"{pod['metadata']['namespace']}/{name}" if name else None

    def members(self, group):
        return {
            k: p
            for k, p in self.pods.items()
            if self.group_of(p) == group and k not in self.missing
        }

    def least(self, group):
        gang = self.groups[group]["spec"]["schedulingPolicy"].get("gang")
        return gang["minCount"] if gang else 0

    def topology(self, group):
        return (
            (self.groups[group]["spec"].get("schedulingConstraints") or {})
            .get("topology", [{}])[0]
            .get("key")
        )

    def whole(self, group):
        return self.groups[group]["spec"].get("disruptionMode") == "PodGroup"

    def priority(self, group):
        return self.groups[group]["spec"].get("priority", 0)

    def cluster(self, without=()):
        return SimulatedCluster(
            self.nodes, [(self.pods[k], n) for k, n in self.at.items() if k not in without]
        )

    def labels(self, node):
        return next(n["metadata"]["labels"] for n in self.nodes if n["metadata"]["name"] == node)

    def capacity_for(self, group, cluster, ignore=()):
        """How many more members of a group could be placed now.

        `ignore`: members that count as not placed.
        """
        members = self.members(group)
        bound = [k for k in members if k in self.at and k not in ignore]
        pending = [p for k, p in members.items() if k not in bound]
        names = list(cluster.nodes)
        key = self.topology(group)
        if not key:
            return len(bound), cluster.fill(pending, names)
        there = {self.labels(self.at[k]).get(key) for k in bound}
        domains = collections.defaultdict(list)
        for n in names:
            value = cluster.nodes[n]["metadata"]["labels"].get(key)
            if value is not None and (not there or there == {value}):
                domains[value].append(n)
        return len(bound), max((cluster.fill(pending, d) for d in domains.values()), default=0)

    def can_grow(self, group, cluster, ignore=()):
        """Return whether one more attempt would place a pod."""
        bound, more = self.capacity_for(group, cluster, ignore)
        return more > 0 and bound + more >= self.least(group)
