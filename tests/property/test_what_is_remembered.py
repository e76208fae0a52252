"""A process's state that no object has: all of it, and why it has no consequence.

A process at the end of a generated run, and one that gets the same objects at its end, are compared
attribute by attribute. A difference is state that a restart loses: it is listed in `REMEMBERED`
with the reason why no decision depends on it, or it is a defect. A past state of groups, kept in a
set of the plugin, once killed running pods: such a set fails here on its first day.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.engine.effects import Leading
from scheduler.engine.engine import Engine
from tests.property import test_claims_alone
from tests.property.engines import build
from tests.property.rig import Rig
from tests.property.test_objects_alone import run_moves

ATOMS = (int, float, str, bytes, bool, type(None))
CODE = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)

METERS = "metrics, events and log lines; the counters of a process start at 0, as everywhere"
ANSWERS = (
    "kept answers, found again from what they depend on: test_memo, test_remembered, test_rowlists"
)
DEVICES = "which devices are equal and what was found on them, found again when asked: test_devices"
LAYOUT = (
    "which row a node has, and what grows with rows; ties go by uid, not by row: "
    "test_cluster_machine"
)
FOLLOWED = "how far a reader has followed changes; a new reader begins at the beginning"
QUEUE = (
    "how long a pod waits, who refused it and what would wake it: a new process tries all "
    "pods at once, "
    "and decides nothing by it: test_objects_alone"
)
REPORTED = (
    "the last status of objects, so that it is not written again; at worst a patch is written twice"
)
GROUPS = "what is reported of a group: written to its objects, read from them, or requested again"

# Of a class, or of one attribute of it.
REMEMBERED: Mapping[str, str] = {
    "Counter": METERS,
    "Family": METERS,
    "Histogram": METERS,
    "Observation": METERS,
    "Intake.label": METERS,
    "QueuedPod.sequence": METERS,
    "QueuedPod.ticket": "distinguishes an old entry of a heap from the current one",
    "Outbox": "numbers of effects, and the effects of this turn",
    "InFlightChanges": "changes during attempts in progress; at rest there are none",
    "Hints._planned": QUEUE,
    "FreeSlots._known": ANSWERS,
    "Shape": ANSWERS,
    "Shapes": ANSWERS,
    "SpecShape": ANSWERS,
    "WeakValueDictionary": ANSWERS,
    "Memo": ANSWERS,
    "Concerns": ANSWERS,
    "PodCounts": ANSWERS,
    "DryRunCache": ANSWERS,
    "RowLists": ANSWERS,
    "NominatedPods": ANSWERS,
    "Nominations._priorities": ANSWERS,
    "NodeResourcesFit._strategies": ANSWERS,
    "NodeResourcesFit._left": ANSWERS,
    "PerPod": ANSWERS,
    "Trees._labelled": ANSWERS,
    "ClusterTopologyPlacementGroup._answers": ANSWERS,
    "ClusterTopologyPlacementGroup._kept": "tables of groups that have their own names here, and "
    "how many there were",
    "Sweep": "how large a table may grow before deleted entries are removed",
    "_Answer": ANSWERS,
    "DynamicResources._serving": DEVICES,
    "DeviceSlices._layouts": DEVICES,
    "DeviceSlices._next_layout": DEVICES,
    "DeviceSlices._of": DEVICES,
    "Contents": DEVICES,
    "DeviceCatalog._situations": DEVICES,
    "DeviceCatalog._column": DEVICES,
    "DeviceCatalog._stale": DEVICES,
    "DeviceCatalog.version": DEVICES,
    "Selectors._known": DEVICES,
    "Outcomes._kinds": DEVICES,
    "Outcomes._contents_version": DEVICES,
    "Outcomes._classes_version": DEVICES,
    "UnitIndex": ANSWERS,
    "GroupEvictor": ANSWERS,
    "Touched": FOLLOWED,
    "GroupMembers.version": FOLLOWED,
    "GroupMembers._clock": FOLLOWED,
    "GroupMembers._touched": FOLLOWED,
    "Nominations._changed": FOLLOWED,
    "Intake._following": FOLLOWED,
    "Intake.has_led": "until a process leads, pods are ordered by their creation: test_queue_order",
    "Store._kinds": "a kind of which there was an object once has an empty table",
    "NodeTable": LAYOUT,
    "NetworkTracker._rows": LAYOUT,
    "RowPlaces": LAYOUT,
    "Column": LAYOUT,
    "LabelIndex": LAYOUT,
    "QueuedPod": QUEUE,
    "Queues": QUEUE,
    "ActiveQueue": QUEUE,
    "UnschedulablePods": QUEUE,
    "_Members": QUEUE,
    "GroupMembership._groups": QUEUE,
    "GroupMembership._key_of": QUEUE,
    "GroupMembership._queued": QUEUE,
    "GroupMembership.answers": QUEUE,
    "Groups._late": QUEUE,
    "Groups._is_new": "a new leader searches for groups started before: test_group_lifecycle",
    "QueuedPod.reported": REPORTED,
    "QueuedPod.reported_since": REPORTED,
    "GroupRecord": GROUPS,
    "PlacementProof": GROUPS,
    "RecordStore": GROUPS,
    "_Kept": GROUPS,
    "ClusterTopologyPlacementGroup._trees": GROUPS,
    "GroupStatusWriter": GROUPS,
    "Writing": GROUPS,
    "GroupStates._of": "gated or pending: a new process reports the gate again, and both are at "
    "rest",
    "Deadlines": "when what is said of a group is compared again; of bindings there are none at "
    "rest",
    "Shared.leaving": "whose eviction the API server has confirmed; their deletion stands in the "
    "objects by now",
}


def attributes(thing: Any) -> dict[str, Any]:
    """Return the attributes of an object, by name."""
    found = dict(getattr(thing, "__dict__", {}))
    for kind in type(thing).__mro__:
        slots = getattr(kind, "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(thing, name) and name not in ("__dict__", "__weakref__"):
                found[name] = getattr(thing, name)
    return found


class Differences:
    """The attributes in which two objects differ, as `Class.attribute`; visit each pair once."""

    def __init__(self, one: Any, other: Any) -> None:
        self.found: dict[str, tuple[str, str]] = {}
        self._seen: set[tuple[int, int]] = set()
        self._left: list[tuple[Any, Any, str]] = [(one, other, "")]
        while self._left:
            self._compare(*self._left.pop())

    def _compare(self, one: Any, other: Any, owner: str) -> None:
        pair = (id(one), id(other))
        if one is other or pair in self._seen or isinstance(one, CODE):
            return
        self._seen.add(pair)
        if type(one) is not type(other):
            self._note(owner, one, other)
        elif isinstance(one, np.ndarray):
            if one.shape != other.shape or not np.array_equal(one, other):
                self._note(owner, one, other)
        elif isinstance(one, ATOMS) or type(one).__module__.startswith("scheduler.objects"):
            if one != other:
                self._note(owner, one, other)
        elif isinstance(one, types.MethodType):
            self._left.append((one.__self__, other.__self__, owner))
        else:
            self._left += self._parts(one, other, owner)

    def _parts(self, one: Any, other: Any, owner: str) -> Iterator[tuple[Any, Any, str]]:
        """Yield the parts of two objects of one type, in pairs."""
        if isinstance(one, (list, tuple, deque, set, frozenset)):
            if len(one) != len(other):
                self._note(owner, one, other)
            elif isinstance(one, (set, frozenset)):
                if all(isinstance(each, (*ATOMS, tuple)) for each in one) and one != other:
                    self._note(owner, one, other)
            else:
                yield from ((each, its, owner) for each, its in zip(one, other, strict=True))
        elif isinstance(one, dict):
            if one.keys() != other.keys():
                self._note(owner, one.keys(), other.keys())
            yield from ((one[key], other[key], owner) for key in one.keys() & other.keys())
        else:
            name = type(one).__name__
            if isinstance(one, msgspec.Struct):
                inside = {field: getattr(one, field) for field in one.__struct_fields__}
                beside = {field: getattr(other, field) for field in other.__struct_fields__}
            else:
                inside, beside = attributes(one), attributes(other)
            if inside.keys() != beside.keys():
                self._note(name, inside.keys(), beside.keys())
            for key in sorted(inside.keys() & beside.keys()):
                yield inside[key], beside[key], f"{name}.{key}"

    def _note(self, owner: str, one: Any, other: Any) -> None:
        self.found.setdefault(owner, (repr(one)[:200], repr(other)[:200]))


def unexplained(found: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return the differences without a stated reason."""
    return {
        name: both
        for name, both in found.items()
        if name not in REMEMBERED and name.partition(".")[0] not in REMEMBERED
    }


def lived(rig: Rig) -> tuple[Engine, Engine]:
    """Return an engine that ran in a simulated cluster, and one that reads its final objects."""
    fresh = build()
    fresh.handle(Leading(active=False), rig.now)  # it reads, and decides nothing yet
    for kind in rig.kinds:
        fresh.handle(rig.api.listed(kind), rig.now)
    fresh.run(rig.now, 0)
    fresh.is_leading = True
    fresh.run(rig.now, 0)  # groups are compared with their objects
    return rig.engine, fresh


def random_rig(seed: int) -> Rig:
    """Return a settled simulation: with claims, with members of different priority, or neither."""
    return (
        test_claims_alone.run_moves(seed)
        if seed % 3 == 0
        else run_moves(seed, differing=seed % 3 == 1)
    )


@pytest.mark.parametrize("first", range(0, 40, 20))
def test_all_that_is_remembered_is_known_and_harmless(first: int):
    """The two differ only in state that has its reason above."""
    for seed in range(first, first + 20):
        assert {} == unexplained(Differences(*lived(random_rig(seed))).found), seed


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 3000, 250))
def test_all_that_is_remembered_in_many_clusters(first: int):
    """The invariant holds on two thousand seeds."""
    for seed in range(first, first + 250):
        assert {} == unexplained(Differences(*lived(random_rig(seed))).found), seed


def test_a_memory_that_is_new_is_noticed():
    """A plugin that stores which groups were complete is detected, wherever it stores that."""
    old, fresh = lived(run_moves(0))
    for engine, groups in ((old, {"default/ga"}), (fresh, set[str]())):
        plugin: Any = engine.profiles["trellis"].plugins["ClusterTopologyPlacementGroup"]
        plugin._planner._were_whole = groups
    found = unexplained(Differences(old, fresh).found)
    assert ["Planner._were_whole"] == list(found)
