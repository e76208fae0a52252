"""The reports about odd costs of users: the field is named, nothing fails."""

import msgspec
import pytest

from operators.networktopology.checks import doubts
from operators.networktopology.status import ObservedTopology, status_of
from scheduler.objects.network import (
    REGION_LABEL,
    NetworkTopologySpec,
    NetworkTopologyStatus,
)

VALUES = {REGION_LABEL: ("east", "west")}


def spec(*paths, key=REGION_LABEL):
    """Return a spec from (origin, destination, further fields)."""
    origins = [
        {"origin": origin, "costList": [{"destination": destination, **fields}]}
        for origin, destination, fields in paths
    ]
    table = {"name": "UserDefined", "topologyList": [{"topologyKey": key, "originList": origins}]}
    return msgspec.convert({"weights": [table]}, NetworkTopologySpec)


@pytest.mark.parametrize(
    ("path", "stated"),
    [
        (("east", "west", {"networkCost": -1}), "costList[0].networkCost: -1 is not between 0"),
        (("east", "west", {"networkCost": 10**15}), "networkCost: 1000000000000000 is not between"),
        (("east", "west", {}), "networkCost: is missing"),
        (("east", "est", {"networkCost": 1}), 'no node has the value "est" (did you mean'),
        (
            ("East", "west", {"networkCost": 1}),
            'originList[0].origin: no node has the value "East"',
        ),
        (("east", "east", {"networkCost": 1}), '"east" leads to itself'),
        (
            ("east", "west", {"networkCost": 1, "bandwidthCapacity": "-1G"}),
            "bandwidthCapacity: -1G is negative",
        ),
        (
            ("east", "west", {"networkCost": 1, "bandwidthCapacity": "fast"}),
            'bandwidthCapacity: "fast" is not a quantity',
        ),
    ],
)
def test_each_oddity_names_its_field(path, stated):
    """One text per oddity, beginning with the path."""
    found = list(doubts(spec(path), VALUES))

    assert any(stated in text for text in found), found
    assert all(text.startswith("spec.weights[0].topologyList[0]") for text in found)


def test_different_costs_of_the_two_directions_are_reported():
    """Each direction uses its own cost; different costs are reported because they are seldom
    intended.
    """
    paths = spec(("east", "west", {"networkCost": 20}), ("west", "east", {"networkCost": 30}))

    (reported,) = doubts(paths, VALUES)
    assert '"east" to "west" costs 20, the reverse direction 30' in reported


def test_an_unused_key_is_reported():
    """A misspelt label would remove the costs of every link without a message."""
    reported = next(iter(doubts(spec(key="topology.kubernetes.io/zones"))))
    assert 'did you mean "topology.kubernetes.io/zone"?' in reported


def test_the_condition_comes_and_goes():
    """The condition exists from the first doubt on, becomes True again without doubts, and changes
    its time then.
    """
    odd, fine = (spec(("east", "west", {"networkCost": cost})) for cost in (-1, 1))
    first = status_of(odd, ObservedTopology(2, 1, NetworkTopologyStatus(), "then", values=VALUES))
    later = status_of(fine, ObservedTopology(2, 2, first, "now", values=VALUES))
    never = status_of(fine, ObservedTopology(2, 2, NetworkTopologyStatus(), "now", values=VALUES))

    shown = [
        {one.type: (one.status, one.last_transition_time) for one in status.conditions}
        for status in (first, later, never)
    ]
    assert ("False", "then") == shown[0]["Consistent"]
    assert ("True", "now") == shown[1]["Consistent"]
    assert "Consistent" not in shown[2]
