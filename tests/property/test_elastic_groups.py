"""Elastic groups, and groups that lost members: placed exactly if possible, and optimally.

Random small clusters go through `simulate` and are compared with enumeration: sizes from a minimum
to all existing members, bound members that do not move, rules between members, preferred and
required levels, and several trees at a time: that of the profile (a ConfigMap's, or of node
labels), those that groups name (another ConfigMap's, a Topology of Kueue), and those of the labels
that PodGroups of Kubernetes name. They may cross one another.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.property.batches import batches
from tests.property.clusters_with_groups import HOST, ZONE, Old, SmallCluster, Where, random_cluster
from tests.property.test_certificates import CAPACITY, FIT_AT, given_up
from tests.unit.plugins.groupobjects import config_map, group
from tests.unit.simulate.asking import place, setup

BATCH = 20
AVOID, SPARE = "example.com/suspect", "example.com/spare"
CONFIGURED = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "trellis",
            "plugins": {"preEnqueue": {"enabled": [{"name": "ClusterTopologyPlacementGroup"}]}},
            "pluginConfig": [
                {
                    "name": "ClusterTopologyPlacementGroup",
                    "args": {
                        "avoidLabel": AVOID,
                        "avoidConditions": ["Deadlock", "Healthy=False"],
                        "spareLabel": SPARE,
                    },
                }
            ],
        }
    ],
}
# The label of the profile's level "rack", and one with the same level name that crosses it.
RACK, OWN_RACK = "topology.trellis.dev/rack", "rack"
WITHOUT = re.compile(r"without (.+?) (?:(all) fit|at least (\d+) fits?)")
MAP, KUEUE, TREE_LABEL = "another-tree", "fabric", "sakkara.topology"
CONFIG, COSCHEDULING, WORKLOAD = "ConfigMap", "scheduling.x-k8s.io", "scheduling.k8s.io"


class Elastic(SmallCluster, frozen=True):
    """A cluster whose group has from `minimum` to `size` members, some of them bound already.

    `source` is the kind of object that describes it, `version` that of Kubernetes' own: a ConfigMap
    has no minimum. With `key` it must be in one value of that label, and the tree of the profile
    has no effect; `own_racks` are the nodes' values of the label OWN_RACK. `by_labels` makes the
    profile's tree of node labels. `tree` is the one that the group names, MAP or KUEUE: its racks
    are those of OWN_RACK. `name` is the group's.
    """

    name: str = "g"
    source: str = CONFIG
    version: str = "v1alpha2"
    minimum: int = 0
    bound: Where = ()
    key: str = ""
    own_racks: Where = ()
    by_labels: bool = False
    avoided: Where = ()
    conditions: tuple[tuple[str, str, str], ...] = ()
    spare: Where = ()
    tree: str = ""

    def objects(self) -> list[dict[str, Any]]:
        """Return the cluster as manifests."""
        found = [one for one in super().objects() if not self._is_description(one)]
        members = [one for one in found if one["metadata"]["name"].startswith("g-")]
        for name, kind, status in self.conditions:
            (node,) = (
                one for one in found if one["kind"] == "Node" and one["metadata"]["name"] == name
            )
            conditions = [{"type": "Ready", "status": "True"}, {"type": kind, "status": status}]
            node["status"]["conditions"] = conditions
        for at, one in enumerate(members):
            one["metadata"] |= {"name": f"{self.name}-{at}", "uid": f"{self.name}-{at}"}
            one["metadata"]["labels"]["app"] = self.name
            if self.source == WORKLOAD:
                del one["metadata"]["labels"]["sakkara.group.name"]
                one["spec"]["schedulingGroup"] = {"podGroupName": self.name}
            if at < len(self.bound):
                one["spec"]["nodeName"] = self.bound[at]
        return [*found, *self._trees(), self._described()]

    def _trees(self) -> list[dict[str, Any]]:
        """Return the cluster's topology objects, whether the group names one of them or not."""
        if not self.own_racks:
            return []
        units: dict[str, dict[str, Any]] = {}
        for name, rack in zip(self.nodes, self.own_racks, strict=True):
            units.setdefault(rack, {})[name] = {}
        data = {"name": MAP, "tree": json.dumps(units), "level-names": '["rack", "node"]'}
        levels = [{"nodeLabel": OWN_RACK}, {"nodeLabel": HOST}]
        kueue = {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "Topology",
            "metadata": {"name": KUEUE},
            "spec": {"levels": levels},
        }
        # The profile's tree is that of the first ConfigMap by name, if there is one.
        named = [] if self.by_labels and self.tree != MAP else [config_map("z", TREE_LABEL, data)]
        return [*named, kueue]

    def _as_in_tree(self) -> Elastic:
        """Return the cluster with the racks of the tree that the group calls by name."""
        racks = dict(zip(self.nodes, self.own_racks, strict=True))
        nodes = {name: (cpus, zone, racks[name]) for name, (cpus, zone, _) in self.nodes.items()}
        return self.changed(nodes=nodes, tree="")

    def results(self, without: Where = ()) -> list[tuple[int, ...]]:
        """Return the objective of every result that places no member on the nodes in `without`."""
        return [
            self.value(where)
            for number in range(self.least, self.size + 1)
            for where in self._assignments(number)
            if set(without).isdisjoint(where)
        ]

    @property
    def least(self) -> int:
        """Return the fewest members of a result, bound ones included."""
        return max(self.minimum, len(self.bound) + 1) if self.minimum else self.size

    def fits_at(self, number: int) -> bool:
        """Return whether exactly this many members, bound ones included, fit."""
        return any(True for _ in self._assignments(number))

    def _assignments(self, number: int) -> Iterator[Where]:
        """Yield the placements of waiting members, for this many members with the bound ones."""
        there = (*self.old, *(Old("", at, True, self.has_port, 0) for at in self.bound))
        if number >= len(self.bound):
            waiting = number - len(self.bound)
            for where in itertools.combinations_with_replacement(self.nodes, waiting):
                if self._holds(where, there):
                    yield where

    def last_resorts(self) -> list[tuple[int, ...]]:
        """Return the objectives of the results that count: of those without last-resort nodes, if
        any.
        """
        return next(filter(None, map(self.results, self._passes())), [])

    def left_out(self) -> Where:
        """Return the nodes that no member may use, because there are results without them."""
        return next(filter(self.results, self._passes()), ())

    def _passes(self) -> tuple[Where, ...]:
        """Return the sets of excluded nodes, fewer each time."""
        unhealthy = (("Deadlock", "True"), ("Healthy", "False"))
        marked = (name for name, *found in self.conditions if tuple(found) in unhealthy)
        avoided = (*self.avoided, *marked)
        kept = () if self.bound else self.spare
        return (*avoided, *self.spare), (*avoided, *kept), kept

    def _labels(self, name: str) -> dict[str, str]:
        found = super()._labels(name)
        found |= {AVOID: "suspect"} if name in self.avoided else {}
        found |= {RACK: self.nodes[name][2]} if self.by_labels else {}
        if self.own_racks:
            found[OWN_RACK] = self._unit(OWN_RACK, name)
        return found | ({SPARE: ""} if name in self.spare else {})

    def value(self, where: Where) -> tuple[int, ...]:
        """Return the objective of this placement of the waiting members."""
        every = (*self.bound, *where)
        return self.size - len(every), *self._objective(every)

    def _holds(self, where: Where, there: Any) -> bool:
        # Bound members are subject to the level rules as well, but do not move.
        bare = self.changed(levels={}, key="", bound=())
        if self.bound or self.key:
            return SmallCluster._holds(bare, where, there) and self._levels_hold(
                Counter((*self.bound, *where))
            )
        return super()._holds(where, there)

    def _levels_hold(self, pods: Counter[str]) -> bool:
        if self.key:
            return len({self._unit(self.key, name) for name in pods}) <= 1
        if self.tree:
            return self._as_in_tree()._levels_hold(pods)
        return super()._levels_hold(pods)

    def _objective(self, where: Where) -> list[int]:
        if self.tree:
            return self._as_in_tree()._objective(where)
        if not self.key:
            return super()._objective(where)
        pods = Counter(where)
        return [1, -(len(where) ** 2), len(pods), -sum(n * n for n in pods.values())]

    def _unit(self, key: str, name: str) -> str:
        if key == OWN_RACK:
            return self.own_racks[list(self.nodes).index(name)]
        return self._domain(key, name)

    def _is_description(self, one: dict[str, Any]) -> bool:
        labels = one["metadata"].get("labels", {})
        return "sakkara.group" in labels or (self.by_labels and "sakkara.topology" in labels)

    def _described(self) -> dict[str, Any]:
        meta: dict[str, Any] = {"name": self.name, "namespace": "default", "annotations": {}}
        if not self.key:
            meta["annotations"] = {"sakkara.group/constraints": json.dumps(self.levels)}
        if self.tree:
            meta["annotations"] |= {"sakkara.group/topology": self.tree}
        if self.source == CONFIG:
            found: dict[str, Any] = group("g", self.size, self.levels, priority=self.priority)
            found["data"] |= {"topology": self.tree} if self.tree else {}
            if self.bound:  # it was complete before it lost the others: no member is evicted
                found["data"]["status"] = "Bound"
            return found
        if self.source == COSCHEDULING:
            version = "v1alpha1"
            spec: dict[str, Any] = {"minMember": self.minimum}
        else:
            version = self.version
            spec = {"schedulingPolicy": {"gang": {"minCount": self.minimum}}}
            if self.key:
                spec["schedulingConstraints"] = {"topology": [{"key": self.key}]}
        return {
            "apiVersion": f"{self.source}/{version}",
            "kind": "PodGroup",
            "metadata": meta,
            "spec": spec,
        }


def elastic(rng: Random, *, lost: bool) -> Elastic:
    """Return a random cluster; with `lost`, some members of the group are bound already."""
    plain = random_cluster(rng, evicts=False)
    source = rng.choice((CONFIG, COSCHEDULING, COSCHEDULING, WORKLOAD, WORKLOAD))
    size = plain.size + rng.randint(0, 2) if source != CONFIG else plain.size + lost
    bound = tuple(_bound(rng, plain, size - 1)) if lost else ()
    keys = (ZONE, HOST, OWN_RACK, OWN_RACK, "", "")
    key = rng.choice(keys) if source == WORKLOAD else ""
    return Elastic(
        **{name: getattr(plain, name) for name in SmallCluster.__struct_fields__}
        | {"size": size, "levels": {} if key else plain.levels},
        source=source,
        minimum=0 if source == CONFIG else rng.randint(1, size),
        bound=bound,
        key=key,
        own_racks=tuple(f"o{rng.randrange(2)}" for _ in plain.nodes),
        by_labels=rng.random() < 0.5,
        version=rng.choice(("v1alpha2", "v1alpha3", "v1beta1")),
        tree="" if key else rng.choice(("", "", MAP, KUEUE)),
    )


def _bound(rng: Random, plain: SmallCluster, most: int) -> Iterator[str]:
    """Yield nodes for bound members, with capacity beside the existing pods."""
    left = {name: cpus for name, (cpus, _, _) in plain.nodes.items()}
    for one in plain.old:
        left[one.node] -= 1
    ported = {one.node for one in plain.old if one.has_port}
    for _ in range(rng.randint(1, max(1, most))):
        open_ones = [n for n in left if left[n] > 0 and not (plain.has_port and n in ported)]
        if not open_ones:
            return
        name = rng.choice(open_ones)
        left[name] -= 1
        ported.add(name)
        yield name


@pytest.mark.parametrize("batch", batches(20, 2000, BATCH))
@pytest.mark.parametrize("lost", [False, True])
def test_members_are_placed_optimally_exactly_when_they_fit(batch, lost):
    """As many members as fit are placed, optimally.

    Bound members stay, and reports about them are true. With `lost` it is a repair: each missing
    member is placed whenever that is possible beside the bound ones, in their unit if possible, and
    otherwise anywhere that the rules allow. The sizes, the capacity and the rules that a rejection
    names are compared with enumeration as well.
    """
    for n in range(BATCH):
        cluster = elastic(Random(f"elastic {lost} {batch}/{n}"), lost=lost)
        check(cluster, place(*cluster.objects()))


@pytest.mark.parametrize("batch", batches(20, 2000, BATCH))
def test_groups_in_one_cluster_have_trees_of_their_own(batch):
    """Two groups, the second of lower priority: each is placed as if the others of the cluster were
    plain pods.
    """
    for n in range(BATCH):
        rng = Random(f"two {batch}/{n}")
        first = elastic(rng, lost=False)
        other = first.changed(
            name="h", source=WORKLOAD, size=rng.randint(1, 3), minimum=1, priority=-1, old=(),
            key=rng.choice((ZONE, HOST, OWN_RACK)), levels={}, spread=(), anti="", has_port=False,
            tree="",
        )  # fmt: skip
        apart = [one for one in other.objects() if one["kind"] in ("Pod", "PodGroup")]
        simulation = place(*first.objects(), *apart)
        check(first, simulation)
        taken = [one.node for one in simulation.pods if one.name.startswith("g-") and one.node]
        beside = (*first.old, *(Old("", at, False, False, 0) for at in taken))
        check(other.changed(old=beside), simulation)


@pytest.mark.parametrize("batch", batches(20, 1000, BATCH))
@pytest.mark.parametrize("lost", [False, True])
def test_some_nodes_are_taken_last(batch, lost):
    """Avoided nodes are used only if no other placement exists, standby nodes only for lost
    members, and only then.
    """
    using = setup(config=json.dumps(CONFIGURED))
    for n in range(BATCH):
        rng = Random(f"last {lost} {batch}/{n}")
        plain = elastic(rng, lost=lost)
        marks = {name: rng.choice(("", "", "avoided", "spare", "both")) for name in plain.nodes}
        cluster = plain.changed(
            avoided=tuple(name for name, mark in marks.items() if mark in ("avoided", "both")),
            spare=tuple(name for name, mark in marks.items() if mark in ("spare", "both")),
        )
        check(cluster, place(*cluster.objects(), using=using))


@pytest.mark.parametrize("batch", batches(40, 120, 40))
@pytest.mark.parametrize("lost", [False, True])
def test_nodes_in_a_condition_are_taken_last(batch, lost):
    """A condition is named by type or by type and status; other statuses change nothing, and bound
    members stay.
    """
    using = setup(config=json.dumps(CONFIGURED))
    spared = 0
    for n in range(batch * 40, batch * 40 + 40):
        rng = Random(f"condition {lost} {n}")
        plain = elastic(rng, lost=lost)
        conditions = tuple(
            (name, rng.choice(("Deadlock", "Healthy")), rng.choice(("True", "False", "Unknown")))
            for name in plain.nodes
            if rng.random() < 0.7
        )
        cluster = plain.changed(conditions=conditions)
        simulation = place(*cluster.objects(), using=using)
        check(cluster, simulation)
        pods = [one for one in simulation.pods if one.name.startswith(f"{cluster.name}-")]
        taken = {one.node for one in pods if one.node}
        left_out = set(cluster.left_out())
        spared += bool(taken and left_out)
        assert taken.isdisjoint(left_out), cluster

    assert spared > 1


def check(cluster, simulation):
    """Compare the result of a cluster's group, and the reports about it, with every possible
    result.
    """
    pods = [one for one in simulation.pods if one.name.startswith(f"{cluster.name}-")]
    placed = tuple(one.node for one in pods if one.node)
    results = cluster.last_resorts()
    (report,) = (one for one in simulation.groups if one.name == cluster.name)

    if cluster.bound and placed and not results:
        # it was complete: lost members that fit return, by the rules of test_group_repairs
        return
    assert bool(placed) == bool(results), (cluster, [one.message for one in pods])
    if not placed:
        if cluster.bound:
            return  # the numbers of the message are those of the lost members
        for message in {one.message for one in pods}:
            check_advice(cluster, message)
        return
    assert min(results) == cluster.value(placed), (cluster, placed)
    if cluster.bound:
        return  # a proof beside bound members is not reported for the group as a whole
    assert report.optimal
    assert report.objective == report.bound
    best = min(results) if 0 < cluster.minimum < cluster.size else min(results)[1:]
    assert best == report.objective, cluster


def check_advice(cluster, message):
    """The sizes that a rejection names fit, so do enough members without the named rules, and the
    stated capacity is too small.
    """
    sizes = FIT_AT.search(message)
    for size in filter(None, sizes.groups() if sizes else ()):
        assert cluster.fits_at(int(size)), (message, cluster)
    stated = CAPACITY.search(message)
    assert stated is None or int(stated[1]) < cluster.least, (message, cluster)
    without = WITHOUT.search(message)
    if without:
        text, all_of_them, enough = without.groups()
        choices = [[one] for one in text.split(" or ")] if " or " in text else [text.split(" and ")]
        assert cluster.least == (int(enough) if enough else cluster.size), (message, cluster)
        for rules in choices:
            of_label = [one for one in rules if one == f"{cluster.key} hard pack"]
            other = cluster.changed(key="") if of_label else cluster
            other = given_up(other, [one for one in rules if one not in of_label])
            least = other.size if all_of_them else int(enough)
            assert any(map(other.fits_at, range(least, other.size + 1))), (message, cluster)
