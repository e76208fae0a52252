"""The rules of NetworkTopology's status, as a table and by properties."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operators.networktopology.status import (
    ObservedTopology,
    doubtful_paths,
    merge_patch,
    status_of,
)
from scheduler.objects.meta import Condition
from scheduler.objects.network import NetworkTopologySpec, NetworkTopologyStatus

NOW, LATER = "2026-03-01T10:00:00Z", "2026-03-01T11:00:00Z"
ZONE = "topology.kubernetes.io/zone"


def spec(*paths: tuple[str, str, str, str]) -> NetworkTopologySpec:
    """Make a spec with one table entry per (table, key, origin, destination)."""
    weights = [
        {
            "name": table,
            "topologyList": [
                {
                    "topologyKey": key,
                    "originList": [
                        {"origin": origin, "costList": [{"destination": to, "networkCost": 5}]}
                    ],
                }
            ],
        }
        for table, key, origin, to in paths
    ]
    return msgspec.convert({"weights": weights}, NetworkTopologySpec)


def observed(previous: NetworkTopologyStatus, count: int = 3, now: str = NOW) -> ObservedTopology:
    return ObservedTopology(node_count=count, generation=2, previous=previous, now=now)


FIRST = ("UserDefined", ZONE, "Z1", "Z2")
BACK = ("UserDefined", ZONE, "Z2", "Z1")
OTHER_TABLE = ("NetperfCosts", ZONE, "Z1", "Z2")
OTHER_KEY = ("UserDefined", "topology.kubernetes.io/region", "Z1", "Z2")
CALCULATED = NetworkTopologyStatus(weights=spec(OTHER_TABLE).weights)


@pytest.mark.parametrize(
    ("paths", "previous", "ready", "reason"),
    [
        ([FIRST], NetworkTopologyStatus(), "True", "Observed"),
        ([FIRST, BACK, OTHER_TABLE, OTHER_KEY], NetworkTopologyStatus(), "True", "Observed"),
        ([FIRST, FIRST], NetworkTopologyStatus(), "False", "ListedTwice"),
        ([], NetworkTopologyStatus(), "False", "NoCosts"),
        ([], CALCULATED, "True", "Observed"),
    ],
)
def test_ready_says_whether_the_tables_can_be_used(
    paths: list[Any], previous: NetworkTopologyStatus, ready: str, reason: str
):
    """A link belongs to a table, a key and a direction; listed twice it is in doubt."""
    got = status_of(spec(*paths), observed(previous))

    assert (3, 2) == (got.node_count, got.observed_generation)
    (condition,) = got.conditions
    assert ("Ready", ready, reason, NOW, 2) == (
        condition.type,
        condition.status,
        condition.reason,
        condition.last_transition_time,
        condition.observed_generation,
    )


def test_the_message_names_a_few_paths_and_counts_the_rest():
    """A table that is doubled as a whole must not make a message of a megabyte."""
    paths = [("T", ZONE, "Z0", f"Z{number}") for number in range(10)]
    condition, *_ = status_of(spec(*paths, *paths), observed(NetworkTopologyStatus())).conditions

    assert condition.message.endswith('T, zone: "Z0" to "Z2"; and 7 more'.replace("zone", ZONE))


def test_the_time_moves_only_with_the_status():
    """lastTransitionTime is the start of the present status, whatever else changes in the
    meantime.
    """
    first = status_of(spec(FIRST), observed(NetworkTopologyStatus()))
    same = status_of(spec(FIRST, BACK), observed(first, count=9, now=LATER))
    broken = status_of(spec(FIRST, FIRST), observed(same, now=LATER))

    assert [NOW, NOW, LATER] == [
        one.conditions[0].last_transition_time for one in (first, same, broken)
    ]


def test_what_others_wrote_stays():
    """Conditions of other writers keep their place and their empty message."""
    others = Condition(type="Measured", status="True", last_transition_time=NOW, reason="Done")
    previous = NetworkTopologyStatus(conditions=(others,), weights=CALCULATED.weights)
    got = status_of(spec(FIRST), observed(previous))
    patch = merge_patch(previous, got)

    assert others == got.conditions[0]
    assert CALCULATED.weights == got.weights
    assert "" == patch["conditions"][0]["message"]
    assert ["Measured", "Ready"] == [one["type"] for one in patch["conditions"]]


def test_only_what_differs_is_written():
    """A new node changes one field; without a change no request is sent."""
    before = status_of(spec(FIRST), observed(NetworkTopologyStatus()))
    after = status_of(spec(FIRST), observed(before, count=4, now=LATER))

    assert {} == merge_patch(before, before)
    assert {"nodeCount": 4} == merge_patch(before, after)


def test_an_older_definition_gets_the_count_alone():
    """In the older definition a write raises the generation, so observedGeneration would never
    match.
    """
    nothing = NetworkTopologyStatus()
    got = status_of(spec(FIRST), observed(nothing))

    assert {"nodeCount": 3} == merge_patch(nothing, got, legacy=True)


names = st.sampled_from(["", "a", "b"])
paths = st.lists(st.tuples(names, names, names, names), max_size=12)
conditions = st.lists(
    st.builds(
        Condition,
        type=st.sampled_from(["Ready", "Other", "Third"]),
        status=st.sampled_from(["True", "False", "Unknown"]),
        last_transition_time=st.sampled_from(["", NOW]),
        reason=names,
        message=names,
        observed_generation=st.integers(0, 3),
    ),
    unique_by=lambda one: one.type,
).map(tuple)
statuses = st.builds(
    NetworkTopologyStatus,
    node_count=st.none() | st.integers(0, 5),
    observed_generation=st.none() | st.integers(0, 3),
    conditions=conditions,
)


@given(paths, statuses, st.integers(0, 5))
def test_a_second_pass_has_nothing_to_do(listed: list[Any], before: Any, count: int):
    """A status that is written, read back and judged again does not change, so writes end."""
    wanted = status_of(spec(*listed), observed(before, count))
    sent = {**msgspec.to_builtins(before), **merge_patch(before, wanted)}
    stored = msgspec.json.decode(json.dumps(sent), type=NetworkTopologyStatus)
    again = status_of(spec(*listed), observed(stored, count, LATER))

    assert {} == merge_patch(stored, again)
    ours = ("Ready", "Consistent")
    assert [one for one in before.conditions if one.type not in ours] == [
        one for one in stored.conditions if one.type not in ours
    ]


@given(paths)
def test_doubtful_is_what_occurs_twice(listed: list[Any]):
    """Neither order nor grouping into tables changes which paths are in doubt."""
    assert {path for path in listed if listed.count(path) > 1} == set(doubtful_paths(spec(*listed)))
