"""The network plugins against slow models: verdicts, bookings after a year of churn, the queue's
order.
"""

from collections import defaultdict
from fractions import Fraction
from math import ceil
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.appgroup.costs import places as operator_places
from operators.appgroup.costs import statistics
from operators.appgroup.status import ObservedPod
from scheduler.engine.queue.groupactive import GroupedActiveQueue
from scheduler.engine.queue.pod import QueuedPod
from scheduler.framework.nodes import Nodes
from scheduler.objects.plain import read_node, read_object, read_pod
from scheduler.plugins.network import prices
from scheduler.plugins.network.costs import CostTable
from scheduler.plugins.network.places import RowPlaces
from scheduler.plugins.network.tracker import NetworkTracker
from scheduler.state.cluster import Cluster
from scheduler.testing import evaluate, node
from scheduler.testing.scene import Scene
from tests.unit.plugins.networkobjects import (
    GROUP,
    WORKLOAD,
    app_group,
    member,
    placed_node,
    topology,
)
from tests.vectors.networkmodel import Model, normalized

WORKLOADS = ("a", "b", "c", "d")
PLACES = [
    ("r1", "z1"), ("r1", "z2"), ("r1", ""), ("r2", "z3"), ("r2", "z1"), ("", "z4"), ("", ""),
]  # fmt: skip
REGIONS, ZONES = ("r1", "r2", "r3"), ("z1", "z2", "z3", "z4")


def paths(names: tuple[str, ...]) -> st.SearchStrategy[list[Any]]:
    """Return paths between different names, each with a cost and perhaps a capacity."""
    ends = st.sampled_from(names)
    path = st.tuples(ends, ends, st.integers(0, 120), st.sampled_from(["1G", "400M", "2500"]))
    return st.lists(path.filter(lambda one: one[0] != one[1]), max_size=6)


needs = st.dictionaries(
    st.sampled_from(WORKLOADS),
    st.tuples(st.integers(0, 60), st.sampled_from([None, "100M", "333", 7])),
    max_size=3,
)
groups = st.fixed_dictionaries(dict.fromkeys(WORKLOADS, needs))
placements = st.lists(st.tuples(st.sampled_from(WORKLOADS), st.integers(0, 8)), max_size=10)


def nodes_at(places: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return a node for each place."""
    return [placed_node(f"n{number}", *place) for number, place in enumerate(places)]


@given(
    places=st.lists(st.sampled_from(PLACES), min_size=9, max_size=9),
    group=groups,
    regions=paths(REGIONS),
    zones=paths(ZONES),
    placed=placements,
    both=st.booleans(),
    dependents=st.booleans(),
    workload=st.sampled_from(WORKLOADS),
    most=st.sampled_from([2048, 2]),
    most_judged=st.sampled_from([256, 0]),
)
def test_overhead_agrees_with_the_slow_model(
    places: list[tuple[str, str]],
    group: dict[str, Any],
    regions: list[Any],
    zones: list[Any],
    placed: list[tuple[str, int]],
    both: bool,
    dependents: bool,
    workload: str,
    most: int,
    most_judged: int,
) -> None:
    """Verdict, raw and normalised score of every node; also with more places than matrices hold."""
    nodes = nodes_at(places)
    pods = [member(f"p{n}", one, f"n{on}") for n, (one, on) in enumerate(placed)]
    objects = [app_group(group), topology(regions, zones, both=both)]
    args = {"dependents": "Count" if dependents else "Ignore", "bandwidth": "Ignore"}
    pod = member("new", workload)
    model = Model(pod, nodes, pods, objects, {}, dependents=dependents)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowPlaces, "most", most)
        patch.setattr(prices, "MOST_EVALUATED", most_judged)
        got = evaluate(
            "NetworkOverhead", args=args, nodes=nodes, objects=objects, existing_pods=pods, pod=pod
        )

    judged = {f"n{number}": model.judge(f"n{number}") for number in range(len(nodes))}
    assert {name: one[1] <= one[0] for name, one in judged.items()} == {
        name: status.is_success for name, status in got.filter.items()
    }
    raw = {name: one[2] for name, one in judged.items()}
    if got.raw:
        assert raw == got.raw
        assert normalized(raw) == got.normalized
    else:
        assert not any(raw.values())


SPACES = ("default", "a", "b")
LISTS = (("default",), ("b", "default"))


class Year:
    """A cluster with applications of two names in three namespaces, through whatever happens to
    it.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = Cluster()
        self.tracker = NetworkTracker()
        self.tracker.rebuild(self.cluster)
        self.pods: dict[str, Any] = {}
        self.nodes: dict[str, tuple[str, str]] = {}
        self.groups: dict[tuple[str, str], dict[str, Any]] = {}

    def bookings(self, namespaces: tuple[str, ...] = LISTS[0]) -> dict[tuple[str, str, str], int]:
        """Return the tracker's bookings per link."""
        totals = self.tracker.membership(namespaces).bookings.totals()
        return {(one.level, one.origin, one.destination): bits for one, bits in totals.items()}

    def do(self, change: Any) -> None:
        """Apply a change of the cluster to the tracker."""
        if change.kind:
            self.tracker.apply(change)

    def step(self) -> None:
        """Make one random change."""
        moves = (
            self.put_pod,
            self.put_pod,
            self.drop_pod,
            self.put_node,
            self.drop_node,
            self.put_group,
        )
        self.random.choice(moves)()
        if self.random.random() < 0.2:
            # Reads at random moments must not matter.
            self.tracker.membership(self.random.choice(LISTS)).bookings.amounts()

    def put_pod(self) -> None:
        """Create a pod or recreate it elsewhere, perhaps with other labels."""
        name = f"p{self.random.randrange(30)}"
        group = self.random.choice(("app", "shop", ""))
        raw = member(name, self.random.choice(WORKLOADS), f"n{self.random.randrange(10)}", group)
        raw["metadata"]["namespace"] = SPACES[int(name[1:]) % 3]
        self.pods[name] = raw
        self.do(self.cluster.put_pod(read_pod(raw)))

    def drop_pod(self) -> None:
        """Delete a pod."""
        if self.pods:
            name = self.random.choice(sorted(self.pods))
            self.do(self.cluster.drop_pod(read_pod(self.pods.pop(name)).metadata.uid))

    def put_node(self) -> None:
        """A node appears or moves to another place."""
        name, place = f"n{self.random.randrange(10)}", self.random.choice(PLACES)
        self.nodes[name] = place
        self.do(self.cluster.put_node(read_node(placed_node(name, *place))))

    def drop_node(self) -> None:
        """Delete a node; its pods stay."""
        if self.nodes:
            name = self.random.choice(sorted(self.nodes))
            del self.nodes[name]
            self.do(self.cluster.drop_node(name))

    def put_group(self) -> None:
        """Change an application's dependencies, or delete it."""
        key = self.random.choice(SPACES), self.random.choice(("app", "shop"))
        if self.random.random() < 0.3 and key in self.groups:
            kind, group = read_object(self.groups.pop(key))
            self.do(self.cluster.drop_object(kind.kind, group))
            return
        workloads = {
            one: {
                other: (5, self.random.choice(("100M", "333", "7", None)))
                for other in self.random.sample(WORKLOADS, self.random.randrange(3))
            }
            for one in self.random.sample(WORKLOADS, self.random.randint(1, len(WORKLOADS)))
        }
        self.groups[key] = app_group(workloads, name=key[1], namespace=key[0])
        kind, group = read_object(self.groups[key])
        self.do(self.cluster.put_object(kind.kind, group))

    def expected(self, namespaces: tuple[str, ...] = LISTS[0]) -> dict[tuple[str, str, str], int]:
        """Return the bookings per link, counted pod by pod in exact fractions."""
        total: dict[tuple[str, str, str], int] = defaultdict(int)
        for key, group in self.groups.items():
            own: dict[tuple[str, str, str], Fraction] = defaultdict(Fraction)
            for entry in group["spec"]["workloads"]:
                for dependency in entry["dependencies"]:
                    bandwidth = {"100M": 10**8, "333": 333, "7": 7}.get(
                        dependency.get("minBandwidth", ""), 0
                    )
                    there = self._places(key, dependency["workload"]["selector"], namespaces)
                    for one in self._places(key, entry["workload"]["selector"], namespaces):
                        for other in there:
                            link = _link(one, other)
                            if link:
                                own[link] += Fraction(bandwidth, len(there))
            for link, amount in own.items():
                total[link] += ceil(amount)
        return {link: amount for link, amount in total.items() if amount}

    def group_of(self, raw: Any, namespaces: tuple[str, ...]) -> tuple[str, str] | None:
        """Return a pod's group: that of its own namespace first, then those of the list."""
        name = raw["metadata"]["labels"][GROUP]
        for space in (raw["metadata"]["namespace"], *namespaces):
            if (space, name) in self.groups:
                return space, name
        return None

    def _places(
        self, key: tuple[str, str], workload: str, namespaces: tuple[str, ...]
    ) -> list[tuple[str, str]]:
        return [
            self.nodes[raw["spec"]["nodeName"]]
            for raw in self.pods.values()
            if raw["metadata"]["labels"][WORKLOAD] == workload
            and self.group_of(raw, namespaces) == key
            and raw["spec"]["nodeName"] in self.nodes
        ]


def _link(one: tuple[str, str], other: tuple[str, str]) -> tuple[str, str, str] | None:
    if one[0] != other[0]:
        return ("region", one[0], other[0]) if one[0] and other[0] else None
    if one[1] != other[1] and one[1] and other[1]:
        return ("zone", one[1], other[1])
    return None


@pytest.mark.parametrize(
    ("days", "seed"),
    [
        (10, 0),
        (10, 1),
        *(pytest.param(365, seed, marks=pytest.mark.long) for seed in range(2, 5)),
    ],
)
def test_a_year_of_churn_never_drifts(days: int, seed: int) -> None:
    """Bookings equal those of the present pods, to the bit, and a rebuilt tracker has the same.

    A day is a hundred changes, and is recounted at its end.
    """
    year = Year(seed)
    for number in range(100 * days):
        year.step()
        if number % 100 != 99:
            continue
        fresh = NetworkTracker()
        fresh.rebuild(year.cluster)
        current, anew = year.tracker.columns(), fresh.columns()
        assert set(anew) == set(current)
        assert all(np.array_equal(anew[name], current[name]) for name in anew)
        for namespaces in LISTS:
            assert year.expected(namespaces) == year.bookings(namespaces)
            most = year.tracker.membership(namespaces).bookings.most()
            assert most >= max(year.expected(namespaces).values(), default=0)
            assert ties(fresh, namespaces) == ties(year.tracker, namespaces)


def ties(
    tracker: NetworkTracker, namespaces: tuple[str, ...]
) -> dict[tuple[str, str, int], dict[int, list[float]]]:
    """Return the ties of every workload of every group to the pods of each row, by limit."""
    found: dict[tuple[str, str, int], dict[int, list[float]]] = {}
    membership = tracker.membership(namespaces)
    for group in membership.groups():
        pods, needs = membership.pods(group), membership.needs_of(group)
        if needs is None:
            continue
        for workload in WORKLOADS:
            wanted = pods.wanted(workload, needs.of(workload, both=True), kind="both")
            by_cell = wanted.by_cell(pods)
            for number, limit in enumerate(wanted.limits):
                rows: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
                for end in (0, 1):
                    counts = by_cell[2 * number + end].tolist()
                    for row, count in zip(pods.rows.tolist(), counts, strict=True):
                        rows[row][end] += count
                found[group, workload, limit] = {
                    row: both for row, both in sorted(rows.items()) if any(both)
                }
    return {key: rows for key, rows in found.items() if rows}


@given(st.data())
@settings(max_examples=20)
def test_hypothetical_pods_count_as_real_ones(data: st.DataObject) -> None:
    """A state that follows pods equals a pre-filter on the changed cluster."""
    random = Random(data.draw(st.integers(0, 10**6)))
    places = [random.choice(PLACES) for _ in range(6)]
    workloads = {
        one: {other: (random.randrange(30), "100M") for other in random.sample(WORKLOADS, 2)}
        for one in WORKLOADS
    }
    links = [("r1", "r2", 10, "250M")], [("z1", "z2", 5, "150M")]
    objects = [app_group(workloads), topology(*links)]
    pods = [member(f"p{n}", random.choice(WORKLOADS), f"n{random.randrange(6)}") for n in range(8)]
    new = member("new", random.choice(WORKLOADS))
    gone = random.sample(range(8), 3)
    args = {"dependents": "Count"}
    scene = Scene("NetworkOverhead", args)
    scene.fill(nodes_at(places), pods, (), objects)
    view = scene.nodes()
    plugin: Any = scene.plugin
    cycle = scene.cycle(read_pod(new))
    state = plugin.pre_filter(cycle, view)
    left = evaluate(
        "NetworkOverhead",
        args=args,
        nodes=nodes_at(places),
        objects=objects,
        existing_pods=[raw for n, raw in enumerate(pods) if n not in gone],
        pod=new,
    )
    if not hasattr(state, "ties"):
        return
    for number in gone:
        placed = scene.cluster.pods.get(read_pod(pods[number]).metadata.uid)
        assert placed is not None
        plugin.remove_pod(state, placed, scene.cluster.table.rows[placed.node])
    rejected = plugin.filter(cycle, view, state)

    for row in range(view.size):
        reported = () if rejected is None else rejected.texts(row)
        assert left.filter[view.name(row)].reasons == reported


def model_order(plugin: Any, waiting: list[QueuedPod]) -> QueuedPod:
    """Return the next pod, by sorting all pods again."""
    entities: dict[str, list[QueuedPod]] = defaultdict(list)
    for one in waiting:
        entities[plugin.group_and_key(one)[0] or f"alone {one.ticket}"].append(one)

    def key(name: str) -> tuple[Any, ...]:
        own = [plugin.urgency(one) for one in entities[name]]
        best = tuple(min(part) for part in zip(*own, strict=True))
        return (
            *best,
            "" if name.startswith("alone") else name,
            min(o.ticket for o in entities[name]),
        )

    first = entities[min(entities, key=key)]
    return min(first, key=lambda one: (plugin.group_and_key(one)[1], one.ticket))


@given(st.integers(0, 10**6))
@settings(max_examples=25)
def test_the_lineup_hands_out_what_sorting_would(seed: int) -> None:
    """Through arrivals, departures, blocked profiles and a changed order."""
    random = Random(seed)
    scene = Scene("TopologicalSort")
    scene.fill([node("n")], objects=[app_group({}, name=name, order=WORKLOADS) for name in "xy"])
    plugin: Any = scene.plugin
    lineup = GroupedActiveQueue(plugin)
    waiting: list[QueuedPod] = []
    for ticket in range(60):
        move = random.random()
        if move < 0.6:
            raw = member(
                f"p{ticket}", random.choice(WORKLOADS), group=random.choice(("x", "y", "", "?"))
            )
            raw["spec"] |= {"priority": random.randrange(3), "schedulerName": random.choice("st")}
            raw["spec"].pop("nodeName")
            one = QueuedPod(read_pod(raw), ticket, float(random.randrange(4)))
            one.ticket = 10 * ticket
            lineup.push(None, one)
            waiting.append(one)
        elif move < 0.7 and waiting:
            gone = waiting.pop(random.randrange(len(waiting)))
            lineup.leave(gone)
            gone.ticket += 1  # wherever it is now, it is not here
        elif move < 0.75:
            group = app_group({}, name="x", order=random.sample(WORKLOADS, random.randrange(4)))
            kind, obj = read_object(group)
            change = scene.follow(scene.cluster.put_object(kind.kind, obj))
            for moved in lineup.resorted_by(change):
                lineup.leave(moved)
                moved.ticket += 1
                lineup.push(None, moved)
        elif waiting:
            blocked = frozenset(random.choice(("s", "t", "")))
            free = [one for one in waiting if one.profile not in blocked]
            got = lineup.pop(blocked)
            if not free:
                assert got is None
                continue
            if not blocked:
                assert model_order(plugin, waiting) is got
            assert got in free
            waiting.remove(got)
            lineup.leave(got)


def test_thousands_of_zones_are_no_matrix() -> None:
    """One zone per node on 3,000 nodes: costs are still computed, and links between regions still
    count.
    """
    nodes = [placed_node(f"n{n}", f"r{n % 3}", f"z{n}") for n in range(3000)]
    group = app_group({"a": {"b": (10, "100M")}, "b": {}})
    costs = topology([("r0", "r1", 5, "150M"), ("r0", "r2", 50)], [("z0", "z3", 2)])
    pods = [member("b0", "b", "n0"), member("a0", "a", "n1")]
    got = evaluate(
        "NetworkOverhead",
        nodes=nodes,
        objects=[group, costs],
        existing_pods=pods,
        pod=member("new", "a"),
    )

    shown = [got.raw[name] for name in ("n0", "n3", "n6", "n1", "n2")]
    assert [0, 2, 100, 5, 50] == shown
    assert got.filter["n3"].is_success
    assert "capacity 150000000 bit/s, booked 100000000" in got.filter["n4"].message
    assert "Violated: 1" in got.filter["n5"].message


def test_views_of_a_few_rows_agree_with_the_whole() -> None:
    """The plugin's result for a row does not depend on the other evaluated rows."""
    scene = Scene("NetworkOverhead", {"dependents": "Count"})
    group = app_group({"a": {"b": (10, "100M")}, "b": {"c": (3, None)}, "c": {}})
    pods = [member(f"p{n}", WORKLOADS[n % 3], f"n{n % 7}") for n in range(6)]
    scene.fill(nodes_at(PLACES), pods, (), [group, topology([("r1", "r2", 20)], [("z1", "z2", 5)])])
    cycle, plugin = scene.cycle(read_pod(member("new", "b"))), scene.plugin
    whole = scene.nodes()
    state = plugin.pre_filter(cycle, whole)
    some = Nodes(scene.cluster.table, scene.cluster.pods).only(np.array([5, 1, 3]))

    raw = plugin.score(cycle, whole, state)
    assert raw[[5, 1, 3]].tolist() == plugin.score(cycle, some, state).tolist()
    every, part = plugin.filter(cycle, whole, state), plugin.filter(cycle, some, state)
    for place, row in enumerate((5, 1, 3)):
        assert (every.texts(row) if every else ()) == (part.texts(place) if part else ())


@given(
    places=st.lists(st.sampled_from(PLACES), min_size=4, max_size=4),
    regions=paths(REGIONS),
    zones=paths(ZONES),
    both=st.booleans(),
    group=groups,
    placed=placements,
)
def test_the_operators_figures_are_those_of_the_plugin(
    places: list[tuple[str, str]],
    regions: list[Any],
    zones: list[Any],
    both: bool,
    group: dict[str, Any],
    placed: list[tuple[str, int]],
) -> None:
    """Costs agree between any two nodes.

    Least, mean and greatest cost of all ties are those of the pairs.
    """
    raw = topology(regions, zones, both=both)
    table = read_object(raw)[1]
    at = operator_places([read_node(one) for one in nodes_at(places)], table, "UserDefined")
    found = RowPlaces()
    for row, place in enumerate(places):
        found.set(row, placed_node("n", *place)["metadata"].get("labels", {}))
    matrix = CostTable(table, "UserDefined").matrices(found).columns(np.arange(len(found)))[1]

    def listed(one: int, other: int) -> int:
        return 0 if one == other else int(matrix[found.of(one), found.of(other)])

    for one in range(len(places)):
        for other in range(len(places)):
            assert listed(one, other) == at.cost(f"n{one}", f"n{other}")
    ends = [(workload, on % len(places)) for workload, on in placed]
    pairs = [
        listed(here, there)
        for workload, needed in group.items()
        for origin, here in ends
        for destination, there in ends
        if origin == workload and destination in needed
    ]
    spec = read_object(app_group(group))[1].spec
    pods = [ObservedPod("default", "p", workload, "Running", f"n{on}") for workload, on in ends]
    total = statistics(spec, pods, at)[1]
    figures = None if total is None else (total.min_cost, total.avg_cost, total.max_cost)
    expected = (min(pairs), sum(pairs) // len(pairs), max(pairs)) if pairs else None
    assert expected == figures
