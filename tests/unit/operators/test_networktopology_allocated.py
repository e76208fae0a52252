"""Bookings per link, and statistics per origin: the scheduler's rule, counted a second time."""

from collections import Counter, defaultdict
from typing import Any

import msgspec
import pytest

from operators.networktopology.allocated import LabelLink, booked, with_bookings, with_statistics
from scheduler.objects.groups.appgroup import AppGroup
from scheduler.objects.network import REGION_LABEL, ZONE_LABEL, NetworkTopology
from scheduler.plugins.network.links import REGION
from tests.property.test_network import LISTS, Year
from tests.unit.plugins.networkobjects import app_group, topology


@pytest.mark.parametrize("seed", range(2))
def test_it_is_what_the_plugin_books(seed):
    """The totals stay equal through churn, for two applications at once."""
    year = Year(seed)
    for _ in range(300):
        year.step()
    groups = {key: msgspec.convert(raw, AppGroup).spec.members for key, raw in year.groups.items()}
    pods: dict[Any, Any] = defaultdict(lambda: defaultdict(Counter))
    for raw in year.pods.values():
        _, workload = raw["metadata"]["labels"].values()
        if raw["spec"]["nodeName"] in year.nodes:
            pods[year.group_of(raw, LISTS[0])][workload][year.nodes[raw["spec"]["nodeName"]]] += 1

    keys = {REGION_LABEL: REGION, ZONE_LABEL: "zone"}
    found = {(keys[link[0]], *link[1:]): bits for link, bits in booked(groups, pods).items()}
    assert year.expected() == found
    assert found == year.bookings()


def test_allocations_are_reported_at_the_listed_paths():
    """One listed for both directions has both; one without capacity shows nothing."""
    paths = [("a", "b", 20, "1G"), ("a", "c", 30)]
    raw = topology(paths, both=False)
    (table,) = msgspec.convert(raw, NetworkTopology).spec.weights
    amounts = {LabelLink(REGION_LABEL, "a", "b"): 5, LabelLink(REGION_LABEL, "b", "a"): 7}

    (level, _) = with_bookings(table, amounts).topology_list
    (origin,) = level.origin_list
    assert [12, None] == [path.bandwidth_allocated for path in origin.cost_list]


def test_statistics_tell_least_mean_and_greatest():
    """Per origin, of the listed costs."""
    raw = topology([("a", "b", 20, "1G"), ("a", "c", 31, "500M")])
    (table,) = msgspec.convert(raw, NetworkTopology).spec.weights
    (level, _) = with_statistics(table).topology_list
    reported = level.origin_list[0].origin_inter_statistics

    assert reported is not None
    assert (20, 25, 31) == (reported.min_cost, reported.avg_cost, reported.max_cost)
    assert (500_000_000, 10**9) == (reported.min_bandwidth, reported.max_bandwidth)


def test_a_group_without_pods_books_nothing():
    """A group without pods or without dependencies allocates no bandwidth."""
    group = msgspec.convert(app_group({"a": {"b": (5, "1G")}, "b": {}}), AppGroup)

    assert {} == booked({("default", "app"): group.spec.members}, {})
