"""The tracker after changes one by one equals a rebuilt one, caches included."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.framework.running.answers import States
from scheduler.objects.plain import read_node, read_object, read_pod
from scheduler.objects.reports.podfingerprint import fingerprint, mark_of
from scheduler.plugins.numa import NodeResourceTopologyMatch
from scheduler.plugins.numa.tracker import Topologies
from scheduler.testing.scene import Scene
from tests.property.test_numa_agreement import GPU, published, random_machine, random_pod

NAME = "NodeResourceTopologyMatch"
KIND = "NodeResourceTopology"
NODES = [f"n{number}" for number in range(6)]


class SmallCluster:
    """A scene in which nodes, reports and pods are added, changed and deleted."""

    def __init__(self, source, args):
        self.source = source
        self.scene = Scene(NAME, args)
        self.pods = []
        self.number = 0

    def step(self):
        """Make one random change."""
        moves = [self.node, self.drop_node, self.report, self.drop_report, self.bind, self.assume]
        self.source.choice([*moves, self.report, self.bind, self.assume, self.leave])()

    def node(self):
        offers = {"cpu": "99", "memory": "99Gi"} | (
            {GPU: "9"} if self.source.random() < 0.7 else {}
        )
        raw = {"metadata": {"name": self.name()}, "status": {"allocatable": offers}}
        self.follow(self.cluster.put_node(read_node({"kind": "Node", **raw})))

    def drop_node(self):
        self.follow(self.cluster.drop_node(self.name()))

    def report(self):
        policy = self.source.choice(["single-numa-node", "restricted", "none"])
        scope = self.source.choice(["pod", "container"])
        raw = published(name := self.name(), random_machine(self.source, policy, scope))
        if self.source.random() < 0.5:
            raw["attributes"].append(
                {"name": "nodeTopologyPodsFingerprint", "value": self.fingerprint(name)}
            )
        self.follow(self.cluster.put_object(KIND, read_object(raw)[1]))

    def drop_report(self):
        found = self.cluster.store.of(KIND).get(self.name())
        if found is not None:
            self.follow(self.cluster.drop_object(KIND, found))

    def bind(self):
        self.follow(self.cluster.put_pod(read_pod(self.new_pod(self.name()))))

    def assume(self):
        self.follow(self.cluster.assume(read_pod(self.new_pod("")), self.name()))

    def leave(self):
        placed = list(self.cluster.pods)
        if placed:
            uid = self.source.choice(placed).pod.metadata.uid
            self.follow(self.cluster.drop_pod(uid))

    def fingerprint(self, name):
        pods = [p.pod.metadata for p in self.cluster.pods.on(name).values()]
        return fingerprint(mark_of(one.namespace, one.name) for one in pods)

    def new_pod(self, node):
        self.number += 1
        raw = random_pod(self.source, f"p{self.number}", node=node)
        raw["spec"]["schedulerName"] = self.source.choice(["trellis", "trellis", "other"])
        raw["status"] = {"phase": self.source.choice(["Pending", "Running"])}
        return raw

    def name(self):
        return self.source.choice(NODES)

    def follow(self, change):
        if change.kind:
            self.scene.follow(change)

    @property
    def cluster(self):
        return self.scene.cluster


def stated(plugin, scene, pod):
    """Return a plugin's results: rejected rows and scores."""
    cycle, nodes = scene.cycle(pod), scene.nodes()
    state = plugin.pre_filter(cycle, nodes)
    rejected = None
    if not hasattr(state, "code"):
        rejected = plugin.filter(cycle, nodes, state)
    rows = [] if rejected is None else np.flatnonzero(rejected.rows & nodes.exists).tolist()
    return rows, plugin.score(cycle, nodes, None)[nodes.exists].tolist()


@pytest.mark.parametrize("period", [0, 5], ids=["none", "cache"])
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_following_leads_where_reading_anew_leads(period, seed):
    """The tracker's columns are those of a rebuilt one; cached verdicts are those of a new
    plugin.
    """
    source = Random(seed)
    args = {"cacheResyncPeriodSeconds": period, "policies": ["single-numa-node", "restricted"]}
    small = SmallCluster(source, args)
    scene: Any = small.scene
    asking = [read_pod(random_pod(source, f"a{number}")) for number in range(3)]
    for _ in range(40):
        small.step()
        pod = source.choice(asking)
        fresh = NodeResourceTopologyMatch(scene.plugin.args, scene.handle)
        scene.runner.pre_filter(scene.cycle(pod), scene.nodes(), States())
        assert stated(fresh, scene, pod) == stated(scene.plugin, scene, pod)
    anew = Topologies()
    anew.rebuild(small.cluster)
    current, wanted = scene.handle.tracker(Topologies).columns(), anew.columns()

    assert wanted.keys() == current.keys()
    assert all(np.array_equal(wanted[name], current[name]) for name in wanted)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_is_kept_never_exceeds_what_was_reported(seed):
    """No zone has more free than its accepted report states, nor less than 0."""
    source = Random(seed)
    small = SmallCluster(source, {"cacheResyncPeriodSeconds": 5})
    for _ in range(40):
        small.step()
    plugin: Any = small.scene.plugin
    columns = plugin._reserving.columns
    for name, reserved in plugin._reserving.by_node.items():
        row = small.cluster.table.rows[name]
        assert columns.known[row]
        for resource in columns._amounts.names:
            reported = columns._amounts.of(columns._amounts.given, resource)
            left, most = columns.free(resource)[row], columns.offered(resource)[row]
            assert (left <= np.maximum(reported[row], most)).all()
            assert (left >= -1).all()
        assert set(reserved.owed) <= set(small.cluster.pods.on(name))
