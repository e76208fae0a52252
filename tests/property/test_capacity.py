"""`capacity` in random clusters: N copies fit and N+1 do not, by the engine and by arithmetic."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.simulate.capacity import capacity
from scheduler.simulate.copies import shape_of, with_copies
from scheduler.simulate.simulate import simulate
from scheduler.testing import node
from tests.unit.plugins.groupobjects import group, members
from tests.unit.simulate.asking import default_setup, pod, results, snapshot

LABELS = {"app": "shape"}
SELECTOR = {"labelSelector": {"matchLabels": LABELS}}
RULES: dict[str, dict[str, Any]] = {
    "": {},
    "spread": {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"} | SELECTOR
        ]
    },
    "apart": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname"} | SELECTOR
                ]
            }
        }
    },
    "together": {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "zone"} | SELECTOR
                ]
            }
        }
    },
}


@st.composite
def clusters(draw):
    """Draw nodes in zones, bound and pending pods, and a shape.

    Also each node's free milli-CPU.
    """
    objects, free = [], {}
    for index in range(draw(st.integers(0, 6))):
        name, cpu = f"n{index}", draw(st.integers(1, 6))
        zone = draw(st.sampled_from(["a", "b", "c"]))
        labels = {"kubernetes.io/hostname": name, "zone": zone}
        objects.append(node(name, cpu=str(cpu), labels=labels))
        free[name] = (zone, cpu * 1000)
        if draw(st.booleans()):
            used = draw(st.integers(1, cpu * 1000))
            objects.append(pod(f"u{index}", node_name=name, requests={"cpu": f"{used}m"}))
            free[name] = (zone, cpu * 1000 - used)
    objects += [
        pod(f"w{index}", requests={"cpu": "1"}, spec={"priority": draw(st.integers(0, 2))})
        for index in range(draw(st.integers(0, 2)))
    ]
    milli, rule = draw(st.integers(300, 3000)), draw(st.sampled_from(sorted(RULES)))
    spec = {"priority": 1000, "schedulerName": "trellis"} | RULES[rule]
    shape = pod("shape", labels=LABELS, requests={"cpu": f"{milli}m"}, spec=spec)
    return snapshot(*objects, given=[shape]), free, milli, rule


def _by_arithmetic(free, milli, rule):
    """Return the most copies that fit, None if it depends on the order of nodes."""
    copies = {name: there // milli for name, (_, there) in free.items()}
    if rule == "":
        return sum(copies.values())
    if rule == "apart":
        return sum(count > 0 for count in copies.values())
    if rule == "spread":
        zones = {zone: 0 for zone, _ in free.values()}
        for name, (zone, _) in free.items():
            zones[zone] += copies[name]
        least = min(zones.values(), default=0)
        return sum(min(count, least + 1) for count in zones.values())
    return None


def _check(case):
    cluster, free, milli, rule = case
    found = capacity(cluster, default_setup())
    shape = shape_of(cluster)

    def fitting(number):
        placed = simulate(with_copies(cluster, shape, number), default_setup())
        return sum(one.node is not None for one in placed.pods)

    assert fitting(found.fits) == found.fits
    assert fitting(found.fits + 1) == found.fits
    assert sum(one.pods for one in found.nodes) == found.fits
    assert found.message
    assert not found.limited
    wanted = _by_arithmetic(free, milli, rule)
    assert wanted is None or found.fits == wanted


@settings(max_examples=12)
@given(clusters())
def test_so_many_fit_and_not_one_more(case):
    """The count is that of the engine, and equals a plain count where that is possible."""
    _check(case)


@pytest.mark.long
@settings(max_examples=200)
@given(clusters())
def test_so_many_fit_in_many_clusters(case):
    """The count of pods that fit is right in two hundred clusters."""
    _check(case)


def test_victims_do_not_count_as_free_capacity():
    """For a shape that could evict others, only free capacity counts."""
    low = pod("low", node_name="n", requests={"cpu": "3"}, spec={"priority": 0})
    shape = pod("shape", requests={"cpu": "2"}, spec={"priority": 1000})
    cluster = snapshot(node("n", cpu="4"), low, given=[shape])
    assert results(simulate(cluster, default_setup())) == {"shape": "n"}
    assert capacity(cluster, default_setup()).fits == 0


@st.composite
def clusters_of_racks(draw):
    """Some nodes in racks, and a group with or without a rule.

    The free slots of each node by rack.
    """
    objects: list[dict[str, Any]] = []
    slots: dict[str, list[int]] = {}
    for index in range(draw(st.integers(1, 6))):
        name, cpu, rack = f"n{index}", draw(st.integers(1, 6)), f"r{index % 2}"
        labels = {"kubernetes.io/hostname": name, "topology.trellis.dev/rack": rack}
        objects.append(node(name, cpu=str(cpu), labels=labels))
        slots.setdefault(rack, []).append(cpu)
    size, rule = draw(st.integers(1, 4)), draw(st.sampled_from(["", "rack"]))
    rules = {rule: {"type": "pack", "hard": True}} if rule else {}
    shape = [group("g", size, rules), *members("g", size)]
    return snapshot(*objects, given=shape), slots, size, rule


def _check_groups(case):
    cluster, slots, size, rule = case
    # More than ever fit: a thousand copies of a group would be reported to the engine first.
    found = capacity(cluster, default_setup(), 50)
    shape = shape_of(cluster)

    def fitting(number):
        placed = simulate(with_copies(cluster, shape, number), default_setup()).pods
        return sum(one.node is not None for one in placed) // size

    assert fitting(found.fits) == found.fits
    assert fitting(found.fits + 1) == found.fits
    assert sum(one.pods for one in found.nodes) == found.fits * size
    racks = [sum(nodes) for nodes in slots.values()]
    assert found.fits == sum(count // size for count in (racks if rule else [sum(racks)]))


@settings(max_examples=4, deadline=None)
@given(clusters_of_racks())
def test_so_many_groups_fit_and_not_one_more(case):
    """Groups are counted as a whole, under their own rules, and no capacity of a rack is lost."""
    _check_groups(case)


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@given(clusters_of_racks())
def test_so_many_groups_fit_in_many_clusters(case):
    """The count of groups that fit is right in two hundred clusters."""
    _check_groups(case)
