"""A pod is rejected for bandwidth exactly if its bookings would exceed a capacity.

The model books pod by pod in exact fractions, before and after the pod is placed, and shares no
code with the plugin.
"""

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from math import ceil
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.testing import evaluate
from tests.unit.plugins.networkobjects import REGION, ZONE, app_group, member, placed_node

WORKLOADS = ("a", "b", "c")
PLACES = [("r1", "z1"), ("r1", "z2"), ("r1", "z3"), ("r2", "z3"), ("r2", "z1"), ("r2", ""),
    ("", "z4")]  # fmt: skip
SPACES = ("default", "other")
Link = tuple[str, str, str]
Group = dict[str, dict[str, int]]  # workload → its needs of each other workload, in bit/s

AMOUNTS = (7, 100, 100, 333)
needs = st.dictionaries(
    st.sampled_from(WORKLOADS), st.sampled_from(AMOUNTS), min_size=1, max_size=3
)
groups = st.fixed_dictionaries(dict.fromkeys(WORKLOADS, needs))
pods = st.lists(
    st.tuples(st.sampled_from(SPACES), st.sampled_from(WORKLOADS), st.integers(0, 6)),
    min_size=3,
    max_size=9,
)
capacities = st.one_of(st.none(), st.integers(0, 700))


def paths(names: tuple[str, ...]) -> st.SearchStrategy[dict[tuple[str, str], int | None]]:
    """Return listed paths between different names, each with a capacity or without one."""
    ends = [(one, other) for one in names for other in names if one != other]
    return st.dictionaries(st.sampled_from(ends), capacities, min_size=1, max_size=6)


tables = st.fixed_dictionaries(
    {"region": paths(("r1", "r2", "")), "zone": paths(("z1", "z2", "z3"))}
)


def booked(
    group: Group, bound_pods: list[tuple[str, tuple[str, str]]], region: str
) -> dict[tuple[str, Link], int]:
    """Return the bookings of a group with these pods (workload, place) between regions and within
    one.
    """
    found: dict[tuple[str, Link], Fraction] = defaultdict(Fraction)
    for origin, needs in group.items():
        for destination, bandwidth in needs.items():
            there = [place for workload, place in bound_pods if workload == destination]
            for one in (place for workload, place in bound_pods if workload == origin):
                for other in there:
                    link = between(one, other)
                    if link is not None and (link[0] == "region" or one[0] == region):
                        at = region if link[0] == "zone" else ""
                        found[at, link] += Fraction(bandwidth, len(there))
    return {link: ceil(amount) for link, amount in found.items()}


def between(one: tuple[str, str], other: tuple[str, str]) -> Link | None:
    """Return the link between two places."""
    if one[0] != other[0]:
        return ("region", one[0], other[0]) if one[0] and other[0] else None
    return ("zone", one[1], other[1]) if one[1] != other[1] and one[1] and other[1] else None


class SimulatedCluster:
    """The bound pods of two AppGroups with the same name, and the network paths of their nodes."""

    def __init__(self, drawn: dict[str, Any], table: dict[str, Any]) -> None:
        self.places: list[tuple[str, str]] = drawn["places"]
        self.groups: dict[str, Group] = drawn["groups"]
        self.pods: list[tuple[str, str, int]] = drawn["pods"]
        self.table = table

    def amounts(self, new: tuple[str, int] | None) -> dict[tuple[str, Link], int]:
        """Return the bookings per link; `new` is a workload of the first group and its node."""
        total: dict[tuple[str, Link], int] = defaultdict(int)
        for space in SPACES:
            bound_pods = [(one, self.places[on]) for at, one, on in self.pods if at == space]
            if new is not None and space == SPACES[0]:
                bound_pods.append((new[0], self.places[new[1]]))
            # Zones of one name in two regions have different links: each region has its own.
            own: dict[tuple[str, Link], int] = {}
            for region in ("r1", "r2", ""):
                own |= booked(self.groups[space], bound_pods, region)
            for link, amount in own.items():
                total[link] += amount
        return total

    def is_full(self, workload: str, on: int, *, both: bool) -> bool:
        """Return whether placing the pod there makes some link exceed its capacity."""
        before, after = self.amounts(None), self.amounts((workload, on))
        region, zone = self.places[on]
        for capacity, links in self.limits():
            shown = [
                link
                for link in links
                if both or link[1][1] == (region if link[1][0] == "region" else zone)
            ]
            grows = sum(after[link] - before[link] for link in shown)
            if grows > 0 and sum(before[link] for link in links) + grows > capacity:
                return True
        return False

    def limits(self) -> Iterator[tuple[int, list[tuple[str, Link]]]]:
        """Yield each capacity with its paths: both directions of a path that is listed once."""
        for level, listed in self.table.items():
            for (origin, destination), capacity in listed.items():
                if capacity is None:
                    continue
                found = [(level, origin, destination)]
                if (destination, origin) not in listed:
                    found.append((level, destination, origin))
                for region in ("r1", "r2", "") if level == "zone" else ("",):
                    yield capacity, [(region, link) for link in found]

    def objects(self) -> list[dict[str, Any]]:
        """Return both groups and the table as manifests."""
        found = [
            app_group(
                {
                    one: {other: (0, str(bits)) for other, bits in needs.items()}
                    for one, needs in self.groups[space].items()
                },
                namespace=space,
            )
            for space in SPACES
        ]
        levels = [
            {
                "topologyKey": key,
                "originList": [
                    {
                        "origin": ends[0],
                        "costList": [
                            {"destination": ends[1], "networkCost": 0}
                            | ({} if capacity is None else {"bandwidthCapacity": capacity})
                        ],
                    }
                    for ends, capacity in self.table[level].items()
                ],
            }
            for level, key in (("region", REGION), ("zone", ZONE))
        ]
        meta = {"name": "nt-default", "namespace": "default"}
        topology = {
            "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
            "kind": "NetworkTopology",
            "metadata": meta,
            "spec": {"weights": [{"name": "UserDefined", "topologyList": levels}]},
        }
        return [*found, topology]


drawn = st.fixed_dictionaries(
    {
        "places": st.lists(st.sampled_from(PLACES), min_size=7, max_size=7),
        "groups": st.fixed_dictionaries(dict.fromkeys(SPACES, groups)),
        "pods": pods,
    }
)


def check(drawn: dict[str, Any], table: dict[str, Any], workload: str, both: bool) -> None:
    """Compare the plugin with the model on every node."""
    cluster = SimulatedCluster(drawn, table)
    nodes = [placed_node(f"n{number}", *place) for number, place in enumerate(cluster.places)]
    existing = []
    for number, (space, one, on) in enumerate(cluster.pods):
        raw = member(f"p{number}", one, f"n{on}")
        raw["metadata"]["namespace"] = space
        existing.append(raw)
    got = evaluate(
        "NetworkOverhead",
        args={"dependents": "Count" if both else "Ignore"},
        nodes=nodes,
        objects=cluster.objects(),
        existing_pods=existing,
        pod=member("new", workload),
    )
    refused = {name: "has no headroom" in status.message for name, status in got.filter.items()}
    assert refused == {
        f"n{number}": cluster.is_full(workload, number, both=both) for number in range(len(nodes))
    }


@given(drawn, tables, st.sampled_from(WORKLOADS), st.booleans())
def test_refused_where_bookings_would_exceed_a_capacity_and_nowhere_else(
    drawn: dict[str, Any], table: dict[str, Any], workload: str, both: bool
) -> None:
    """Two groups of one name, dependents counted or not, paths listed once, twice, without
    capacity.
    """
    check(drawn, table, workload, both)


@pytest.mark.long
@pytest.mark.timeout(1800)
@given(drawn, tables, st.sampled_from(WORKLOADS), st.booleans())
@settings(max_examples=10_000)
def test_refused_exactly_in_ten_thousand_clusters(
    drawn: dict[str, Any], table: dict[str, Any], workload: str, both: bool
) -> None:
    """The invariant holds in ten thousand cases."""
    check(drawn, table, workload, both)


def test_a_path_without_capacity_is_not_limited_by_the_opposite_one() -> None:
    """If both directions are listed, each has its own capacity."""
    cluster = {
        "places": [("r1", "z1"), ("r2", "z3"), *PLACES[:5]],
        "groups": {SPACES[0]: {"a": {"b": 100}, "b": {}, "c": {}}, SPACES[1]: {}},
        "pods": [(SPACES[0], "b", 1)],
    }
    for capacity, is_refused in ((None, False), (99, True)):
        table = {"region": {("r2", "r1"): 99, ("r1", "r2"): capacity}, "zone": {}}
        assert is_refused is SimulatedCluster(cluster, table).is_full("a", 0, both=True)
        check(cluster, table, "a", both=True)
