"""The amounts that victims return in a dry run of preemption, compared with plain sums zone by
zone.
"""

from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.framework.hypothetical.overlay import Overlay
from scheduler.framework.hypothetical.rowpods import row_pods
from scheduler.objects.plain import read_pod
from scheduler.objects.reports.numaplacement import METADATA, VECTOR, encode
from scheduler.objects.reports.podfingerprint import fingerprint, mark_of
from scheduler.plugins.numa.tracker import Topologies
from scheduler.testing.builders import node
from scheduler.testing.scene import Scene

NAME = "NodeResourceTopologyMatch"
GIB = 2**30


def asking(name, cpus, *, on="", shares=False, priority=0):
    """Return a pod with exclusive CPUs and a GiB, or a share of them."""
    amounts = {"cpu": str(cpus), "memory": "1Gi"}
    resources = {"requests": amounts, "limits": {} if shares else amounts}
    return {
        "kind": "Pod",
        "metadata": {"namespace": "default", "name": name},
        "spec": {
            "schedulerName": "trellis",
            "nodeName": on,
            "priority": priority,
            "containers": [{"name": "main", "resources": resources}],
        },
        "status": {"phase": "Running" if on else "Pending"},
    }


class NumaNode:
    """A node whose zones have pods: the agent reports some of them, or none."""

    def __init__(self, source, name):
        self.name = name
        self.reports_zones = source.random() < 0.8
        self.zones = source.randint(1, 3)
        self.priority = 5 if source.random() < 0.06 else 0
        self.zone_of, self.cpus = {}, {}
        for number in range(source.randint(0, 6)):
            called = f"{name}-{number}"
            self.zone_of[called] = source.randrange(self.zones)
            self.cpus[called] = source.randint(1, 3)
        self.sharing = f"{name}-sharing"
        self.late = f"{name}-late"
        self.free = [source.randint(0, 3) for _ in range(self.zones)]
        self.most = [
            free + self.used(zone) + source.choice([0, 0, 0, 2, -1])
            for zone, free in enumerate(self.free)
        ]

    def used(self, zone):
        """Return the CPUs that pods hold in a zone."""
        return sum(cpus for name, cpus in self.cpus.items() if self.zone_of[name] == zone)

    def pods(self):
        """Return the pods that the report accounts for."""
        owners = [
            asking(name, cpus, on=self.name, priority=self.priority)
            for name, cpus in self.cpus.items()
        ]
        return [*owners, asking(self.sharing, 1, on=self.name, shares=True)]

    def report(self):
        """Return the agent's report."""
        names = {("default", name, "main"): zone for name, zone in self.zone_of.items()}
        metadata, vectors = encode(names, self.zones)
        marks = [mark_of("default", name) for name in (*self.cpus, self.sharing)]
        reported = {
            "topologyManagerPolicy": "single-numa-node",
            "topologyManagerScope": "pod",
            "nodeTopologyPodsFingerprint": fingerprint(marks),
            **({METADATA: metadata} if self.reports_zones else {}),
        }
        return {
            "kind": "NodeResourceTopology",
            "metadata": {"name": self.name},
            "attributes": [{"name": name, "value": value} for name, value in reported.items()],
            "zones": [
                {
                    "name": f"node-{zone}",
                    "type": "Node",
                    "attributes": [{"name": VECTOR, "value": vectors.get(zone, "")}],
                    "resources": [
                        amount("cpu", self.free[zone], self.most[zone]),
                        amount("memory", 64 * GIB, 128 * GIB),
                    ],
                }
                for zone in range(self.zones)
            ],
        }

    def takes(self, cpus, left, gone):
        """Return whether a pod fits after the eviction of these pods; `left` is the free amount per
        zone in thousandths.
        """
        if gone and self.reports_zones and self.zone_of:
            owners = [name for name in gone if name in self.cpus]
            if not owners:
                return False  # the freed amount is unknown
            left = list(left)
            for name in owners:
                left[self.zone_of[name]] += self.cpus[name] * 1000
            touched = {self.zone_of[name] for name in owners}
            if any(left[zone] > self.most[zone] * 1000 for zone in touched):
                return False
        return any(free >= cpus * 1000 for free in left)


def amount(name, available, most):
    """Return a zone's amount of a resource."""
    texts = {"capacity": str(most), "allocatable": str(most), "available": str(available)}
    return {"name": name, **texts}


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_victims_give_back_what_they_hold(seed):
    """However the dry run states the removed pods, each zone regains its victims' amounts."""
    source = Random(seed)
    scene = Scene(NAME, {"cacheResyncPeriodSeconds": 5, "preemptionMode": "Enabled"})
    numa_nodes = [NumaNode(source, f"n{number}") for number in range(4)]
    nodes = [node(numa_node.name, cpu="64", memory="512Gi") for numa_node in numa_nodes]
    there = [one for numa_node in numa_nodes for one in numa_node.pods()]
    scene.fill(nodes, there, (), [numa_node.report() for numa_node in numa_nodes])
    for numa_node in numa_nodes:
        if source.random() < 0.4:
            late = read_pod(asking(numa_node.late, 1, on=numa_node.name))
            scene.follow(scene.cluster.put_pod(late))
    check(scene, numa_nodes, source)
    for numa_node in numa_nodes:
        if numa_node.cpus and source.random() < 0.5:
            name = source.choice(list(numa_node.cpus))
            del numa_node.cpus[name]
            (uid,) = (p.pod.metadata.uid for p in scene.cluster.pods if p.pod.metadata.name == name)
            scene.follow(scene.cluster.drop_pod(uid))
    check(scene, numa_nodes, source)


def check(scene, numa_nodes, source):
    """Compare the filter's results for dry runs with plain sums."""
    plugin: Any = scene.plugin
    view, table = scene.nodes(), scene.cluster.table
    rows = np.array([table.rows[numa_node.name] for numa_node in numa_nodes], dtype=np.intp)
    placed = [(one, table.rows[one.node]) for one in scene.cluster.pods if one.pod.priority < 1]
    overlay = Overlay(row_pods(rows, placed))
    # The dry run states or omits that these are all pods below a priority.
    overlay.leaving.below = source.choice([None, 1, 1, 1])
    stepwise = view.over(overlay)
    plugin.pre_filter(scene.cycle(read_pod(asking("first", 1))), view)  # reports find their pods
    left = {h.name: scene.handle.tracker(Topologies).left(h.name)["cpu"] for h in numa_nodes}
    for _ in range(3):
        cpus = source.randint(1, 6)
        cycle = scene.cycle(read_pod(asking("new", cpus)))
        state = plugin.pre_filter(cycle, view)
        share = source.choice([0.5, 1])
        overlay.gone[:] = [source.random() < share for _ in placed]
        gone = [overlay.leaving.pod(at) for at in np.flatnonzero(overlay.gone).tolist()]
        names = {
            h.name: [p.pod.metadata.name for p in gone if p.node == h.name] for h in numa_nodes
        }
        wanted = [h.takes(cpus, left[h.name], names[h.name]) for h in numa_nodes]

        for shown, places in ((stepwise, slice(None)), (view.hypothetical(gone), rows)):
            rejected = plugin.filter(cycle, shown, state)
            refused = np.zeros(shown.size, bool) if rejected is None else rejected.rows
            assert wanted == (~refused[places]).tolist()
