"""Groups of open size, and groups that lost members: placed if and only if they can be, and as well as can be.

Random small clusters go through `simulate` and are held against enumeration: sizes from a minimum to as many as
are there, members that stand already and stay where they are, rules between members, wished and required
levels, and two trees: that of the profile, and that of a label which a PodGroup of Kubernetes names.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.property.clusters_with_groups import ZONE, Old, Town, Where, town
from tests.unit.plugins.groupsworld import group
from tests.unit.whatif.asking import place, setup

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
                    "args": {"avoidLabel": AVOID, "spareLabel": SPARE},
                }
            ],
        }
    ],
}
CONFIG, COSCHEDULING, WORKLOAD = "ConfigMap", "scheduling.x-k8s.io", "scheduling.k8s.io"


class Elastic(Town, frozen=True):
    """A town whose group takes from `minimum` to `size` members, some of which stand on nodes already.

    `source` is the kind of object that describes it: a ConfigMap knows no minimum. With `key` it has to be
    in one value of that label, and the tree of the profile says nothing.
    """

    source: str = CONFIG
    minimum: int = 0
    bound: Where = ()
    key: str = ""
    avoided: Where = ()
    spare: Where = ()

    def objects(self) -> list[dict[str, Any]]:
        """Return the town as manifests."""
        found = [one for one in super().objects() if not self._is_group(one)]
        members = [one for one in found if one["metadata"]["name"].startswith("g-")]
        for at, one in enumerate(members):
            if self.source == WORKLOAD:
                del one["metadata"]["labels"]["sakkara.group.name"]
                one["spec"]["schedulingGroup"] = {"podGroupName": "g"}
            if at < len(self.bound):
                one["spec"]["nodeName"] = self.bound[at]
        return [*found, self._described()]

    def results(self, without: Where = ()) -> list[tuple[int, ...]]:
        """Return the objective of every result there is that puts nobody on some nodes."""
        there = (*self.old, *(Old("", at, True, self.has_port, 0) for at in self.bound))
        waiting = self.size - len(self.bound)
        least = max(self.minimum - len(self.bound), 1) if self.minimum else waiting
        return [
            self.value(where)
            for number in range(least, waiting + 1)
            for where in itertools.combinations_with_replacement(self.nodes, number)
            if set(without).isdisjoint(where) and self._holds(where, there)
        ]

    def last_resorts(self) -> list[tuple[int, ...]]:
        """Return the objectives of the results that count: of those without nodes that come last, if any."""
        kept = () if self.bound else self.spare
        ways = ((*self.avoided, *self.spare), (*self.avoided, *kept), kept)
        return next(filter(None, map(self.results, ways)), [])

    def _labels(self, name: str) -> dict[str, str]:
        found = super()._labels(name)
        found |= {AVOID: "suspect"} if name in self.avoided else {}
        return found | ({SPARE: ""} if name in self.spare else {})

    def value(self, where: Where) -> tuple[int, ...]:
        """Return the objective of placing the waiting members so."""
        every = (*self.bound, *where)
        return self.size - len(every), *self._objective(every)

    def _holds(self, where: Where, there: Any) -> bool:
        # Whoever stands there has the rules of levels to keep as well, but is not put anywhere.
        bare = self.changed(levels={}, key="", bound=())
        if self.bound or self.key:
            return Town._holds(bare, where, there) and self._levels_hold(
                Counter((*self.bound, *where))
            )
        return super()._holds(where, there)

    def _levels_hold(self, pods: Counter[str]) -> bool:
        if self.key:
            return len({self.nodes[name][1] for name in pods}) <= 1
        return super()._levels_hold(pods)

    def _objective(self, where: Where) -> list[int]:
        if not self.key:
            return super()._objective(where)
        pods = Counter(where)
        return [1, -(len(where) ** 2), len(pods), -sum(n * n for n in pods.values())]

    def _is_group(self, one: dict[str, Any]) -> bool:
        return "sakkara.group" in one["metadata"].get("labels", {})

    def _described(self) -> dict[str, Any]:
        meta: dict[str, Any] = {"name": "g", "namespace": "default"}
        if self.source == CONFIG:
            found: dict[str, Any] = group("g", self.size, self.levels, priority=self.priority)
            if self.bound:  # it was whole before it lost the others: nobody lets it go
                found["data"]["status"] = "Bound"
            return found
        if self.source == COSCHEDULING:
            meta["annotations"] = {"sakkara.group/constraints": json.dumps(self.levels)}
            version = "v1alpha1"
            spec: dict[str, Any] = {"minMember": self.minimum}
        else:
            version = "v1alpha2"
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
    """Return a random town; with `lost`, some members of the group stand already."""
    plain = town(rng, evicts=False)
    source = rng.choice((CONFIG, COSCHEDULING, COSCHEDULING, WORKLOAD, WORKLOAD))
    size = plain.size + rng.randint(0, 2) if source != CONFIG else plain.size + lost
    bound = tuple(_bound(rng, plain, size - 1)) if lost else ()
    key = ZONE if source == WORKLOAD else ""
    return Elastic(
        **{name: getattr(plain, name) for name in Town.__struct_fields__}
        | {"size": size, "levels": {} if key else plain.levels},
        source=source,
        minimum=0 if source == CONFIG else rng.randint(1, size),
        bound=bound,
        key=key,
    )


def _bound(rng: Random, plain: Town, most: int) -> Iterator[str]:
    """Yield nodes on which members stand, where there is room beside the pods that are there."""
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


def batches(default, full):
    """Return parameters for numbered batches; those beyond the default ones are long."""
    return [
        pytest.param(n, marks=() if n < default // BATCH else pytest.mark.long)
        for n in range(full // BATCH)
    ]


@pytest.mark.parametrize("batch", batches(60, 2000))
@pytest.mark.parametrize("lost", [False, True])
def test_members_are_placed_exactly_when_they_can_be_and_in_the_best_way(batch, lost):
    """As many as fit, in the best places for them; who stands stays, and what is said of it is true.

    With `lost` it is a repair: whoever is missing gets a place whenever there is one beside those that stand, in
    their unit if that can be and anywhere that the rules allow if not.
    """
    for n in range(BATCH):
        world = elastic(Random(f"elastic {lost} {batch}/{n}"), lost=lost)
        check(world)


@pytest.mark.parametrize("batch", batches(40, 1000))
@pytest.mark.parametrize("lost", [False, True])
def test_some_nodes_are_taken_last(batch, lost):
    """Nodes to avoid only where nothing else works; spare ones only for who was lost, and only then."""
    using = setup(config=json.dumps(CONFIGURED))
    for n in range(BATCH):
        rng = Random(f"last {lost} {batch}/{n}")
        plain = elastic(rng, lost=lost)
        marks = {name: rng.choice(("", "", "avoided", "spare", "both")) for name in plain.nodes}
        world = plain.changed(
            avoided=tuple(name for name, mark in marks.items() if mark in ("avoided", "both")),
            spare=tuple(name for name, mark in marks.items() if mark in ("spare", "both")),
        )
        check(world, using)


def check(world, using=None):
    """Hold what becomes of a town's group against every result there is."""
    simulation = place(*world.objects(), using=using)
    pods = [one for one in simulation.pods if one.name.startswith("g-")]
    placed = tuple(one.node for one in pods if one.node)
    results = world.last_resorts()
    (report,) = simulation.groups

    assert bool(placed) == bool(results), (world, [one.message for one in pods])
    if not placed:
        return
    assert min(results) == world.value(placed), (world, placed)
    if world.bound:
        return  # what was proven beside those that stand is not said of the group as a whole
    assert report.optimal
    assert report.objective == report.bound
    best = min(results) if 0 < world.minimum < world.size else min(results)[1:]
    assert best == report.objective, world
