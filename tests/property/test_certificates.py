"""Certificates are true: the reports about a group's placement, conflict and victims.

Random small clusters go through `simulate`; every claim of the answer is compared with enumeration
(clusters_with_groups), with rules between members and existing pods. The default suite checks some,
`make long` 10,000.
"""

import re
from random import Random

import pytest

from tests.property.batches import batches
from tests.property.clusters_with_groups import random_cluster
from tests.unit.simulate.asking import place

BATCH = 25
FIT_AT = re.compile(r"[Aa] group of (\d+)(?: or (\d+))? would fit")
WITHOUT = re.compile(r"without (.+?) all fit")
CAPACITY = re.compile(r"the nodes have capacity for (\d+)")


def asked(cluster):
    """Return the group's report and the common message of its members."""
    simulation = place(*cluster.objects())
    messages = {one.message for one in simulation.pods}
    assert 1 == len(messages)
    return simulation.groups[0], messages.pop()


@pytest.mark.parametrize("batch", batches(25, 10_000))
def test_a_group_is_placed_if_and_only_if_it_fits_and_as_well_as_can_be(batch):
    """A feasible group is Bound with the best possible objective. An infeasible group is rejected,
    and the reported reasons are true.
    """
    for n in range(BATCH):
        cluster = random_cluster(Random(f"town {batch}/{n}"), evicts=False)
        report, message = asked(cluster)
        best = cluster.best(cluster.old)

        assert (best is not None) == (report.status == "Bound"), cluster
        if best is not None:
            assert report.optimal
            assert best == list(report.objective) == list(report.bound), cluster
        else:
            check_advice(cluster, message)


@pytest.mark.parametrize("batch", batches(25, 10_000))
def test_victims_are_fewest_by_priority(batch):
    """A group that fits after evictions evicts the victims with the lowest harm, by priority."""
    for n in range(BATCH):
        cluster = random_cluster(Random(f"victims {batch}/{n}"), evicts=True)
        report, _ = asked(cluster)
        least = cluster.least_victims()

        assert (least is not None) == (report.status == "Bound"), cluster
        if least is None:
            assert not report.victims
            continue
        gone = {one["name"] for one in report.victims}
        lower = [one for one in cluster.old if one.priority < cluster.priority]
        ranks = sorted({one.priority for one in lower}, reverse=True)
        harm = tuple(
            sum(one.priority == rank for one in lower if one.name in gone) for rank in ranks
        )
        assert least == harm, cluster
        assert gone <= {one.name for one in lower}


def check_advice(cluster, message):
    """Check that the group fits with the suggested sizes, that these are the nearest, and that all
    members fit without the named rules.
    """
    named = FIT_AT.search(message)
    near = {int(size) for size in named.groups() if size} if named else set()
    most = sum(cpus for cpus, _, _ in cluster.nodes.values())
    fitting = [size for size in range(1, most + 1) if cluster.changed(size=size).fits()]
    below = [size for size in fitting if size < cluster.size][-1:]
    above = [size for size in fitting if size > cluster.size][:1]
    assert near <= {*below, *above}, (message, cluster)
    if "does not fit" in message and "pod" in message and not cluster.crosses:
        assert near == {*below, *above}, (message, cluster)
    without = WITHOUT.search(message)
    if without:
        text = without.group(1)
        choices = [[one] for one in text.split(" or ")] if " or " in text else [text.split(" and ")]
        for rules in choices:
            assert given_up(cluster, rules).fits(), (message, cluster)
    stated = CAPACITY.search(message)
    if stated:
        assert int(stated.group(1)) < cluster.size


def given_up(cluster, rules):
    """Return the cluster without these rules, identified by their names in messages."""
    for rule in rules:
        level, _, name = rule.partition(" ")
        if rule.startswith("between members spread by "):
            key = rule.removeprefix("between members spread by ")
            cluster = cluster.changed(spread=tuple(one for one in cluster.spread if one[0] != key))
        elif rule.startswith("between members anti-affinity by "):
            cluster = cluster.changed(anti="")
        elif "host port" in rule:
            cluster = cluster.changed(has_port=False)
        else:
            key = name.split(" ")[0]
            kept = {k: v for k, v in cluster.levels[level].items() if k != key}
            cluster = cluster.changed(levels={**cluster.levels, level: kept})
    return cluster
