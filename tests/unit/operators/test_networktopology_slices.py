"""Costs between nodes: measurements become slices, of which only changed ones are written."""

import asyncio
import itertools
import json
import random
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from operators.networktopology.measured import MeasuredNode, samples
from operators.networktopology.operator import RECIPE
from operators.networktopology.readings import Reading
from operators.networktopology.slices import is_same, slices_of
from scheduler.objects.kinds import BY_KIND
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.network import (
    REGION_LABEL,
    ZONE_LABEL,
    NetworkTopology,
    NetworkTopologySlice,
)
from scheduler.objects.node import Node, NodeMeta
from scheduler.objects.plain import read_as
from scheduler.testing import evaluate
from tests.unit.operators import operatorrig
from tests.unit.operators.operatorrig import CRDS, Answer, passed
from tests.unit.plugins.networkobjects import app_group, member, placed_node, topology

DEFINITION, SLICES = (
    yaml.safe_load((CRDS / name).read_text())
    for name in ("networktopologies.yaml", "networktopologyslices.yaml")
)
KIND = BY_KIND["NetworkTopologySlice"]
ZONES = {"n1": "za", "n2": "za", "n3": "zb"}
MILLI = "netperf.p90.latency.milliseconds.origin.{}.destination.{}"
MEASURED = {("n1", "n2"): 100, ("n1", "n3"): 2000, ("n3", "n1"): 3000}
TOPOLOGY = NetworkTopology(metadata=ObjectMeta("nt", "default", "uid-1"))
jumping = pytest.mark.looptime


class OperatorRig(operatorrig.OperatorRig):
    """A store with a NetworkTopology that reads a ConfigMap, and slices that the view follows."""

    def __init__(self, **spec: Any) -> None:
        wanted = {"configmapName": "latencies", "freqUpdate": 1, **spec}
        super().__init__(RECIPE, DEFINITION, "nt", spec=wanted, beside=(SLICES,))
        slices = self.store.kinds.find(KIND.group, KIND.version, KIND.plural)
        maps = self.store.kinds.find("", "v1", "configmaps")
        assert slices is not None
        assert maps is not None
        self.slice_resource, self.maps = slices, maps
        self.slice_watch = self.store.watch(slices, wake=self.follow)
        for name, zone in ZONES.items():
            self.put_node(name, zone)

    def follow(self) -> None:
        """Send slices to the view, as the scheduler's own watch would."""
        for change in self.slice_watch.changes():
            part = read_as(KIND, change.stored.obj)
            is_gone = change.type == "DELETED"
            put = self.cluster.drop_object if is_gone else self.cluster.put_object
            self.view.note(put(KIND.kind, part))
        self.view.flush()

    def put_node(self, name: str, zone: str) -> None:
        labels = {REGION_LABEL: "r", ZONE_LABEL: zone}
        self.view.note(self.cluster.put_node(Node(metadata=NodeMeta(name=name, labels=labels))))
        self.view.flush()

    def measure(self, latencies: dict[tuple[str, str], int]) -> None:
        """Write the ConfigMap."""
        data = {MILLI.format(*pair): str(value) for pair, value in latencies.items()}
        obj = {"metadata": {"name": "latencies"}, "data": data}
        before = self.store.find(self.maps, "default", "latencies")
        if before is None:
            self.store.create(self.maps, obj, "default")
        else:
            self.store.replace(self.maps, before, {**before.obj, "data": data})

    @property
    def slices(self) -> dict[str, dict[tuple[str, str], int]]:
        """The published costs by zone."""
        return {
            one.obj["originZone"]: {
                (origin["origin"], path["destination"]): path["networkCost"]
                for origin in one.obj["origins"]
                for path in origin["costList"]
            }
            for one in self.store.list(self.slice_resource)
        }

    def writes(self) -> list[str]:
        """Return the methods of the requests for slices since the last call."""
        found = [method for method, path in self.asked if KIND.plural in path]
        self.asked.clear()
        return found

    def condition(self, type_: str) -> tuple[str, str]:
        found = next(one for one in self.status["conditions"] if one["type"] == type_)
        return found["reason"], found["message"]


@jumping
async def test_measured_nodes_become_slices_and_only_changes_are_written():
    """Each zone has one slice owned by the topology; noise writes nothing, a slow node its own
    slice.
    """
    at = OperatorRig()
    at.measure(MEASURED)
    async with at.open():
        await passed(3)
        assert ["POST", "POST"] == at.writes()
        assert {
            "za": {("n1", "n2"): 100, ("n1", "n3"): 2000},
            "zb": {("n3", "n1"): 3000},
        } == at.slices
        at.measure({**MEASURED, ("n1", "n2"): 104, ("n3", "n1"): 3100})
        await passed(60)
        assert [] == at.writes()
        at.measure({**MEASURED, ("n3", "n1"): 3200})
        await passed(60)

    assert ["PATCH"] == at.writes()
    assert {("n3", "n1"): 3200} == at.slices["zb"]
    (owner,) = at.store.list(at.slice_resource)[0].obj["metadata"]["ownerReferences"]
    assert ("NetworkTopology", "nt", True) == (owner["kind"], owner["name"], owner["controller"])
    reason, message = at.condition("Measured")
    assert "Measured" == reason
    assert "3 paths between 3 nodes" in message
    assert ["za", "zb"] == [at.status["edges"][0][end] for end in ("origin", "destination")]
    assert 2_600_000 == at.status["edges"][0]["latencyMicroseconds"]
    assert [] == at.reports


@jumping
async def test_unneeded_slices_are_deleted_and_those_of_users_stay():
    """Slices of a lost zone, source and topology are deleted; slices written by a user remain."""
    at = OperatorRig()
    at.measure(MEASURED)
    own = {"metadata": {"name": "mine"}, "topology": "nt", "originZone": "my", "origins": []}
    at.store.create(at.slice_resource, own, "default")
    async with at.open():
        await passed(3)
        at.put_node("n3", "za")
        await passed(3)
        assert {"za", "my"} == set(at.slices)
        obj = at.store.get(at.resource, "default", "nt")
        at.store.replace(at.resource, obj, {**obj.obj, "spec": {}})
        await passed(3)
        assert {"my"} == set(at.slices)
        assert not any(map(at.status.get, ("weights", "edges", "weightCalculationTime")))
        assert ["Ready"] == [one["type"] for one in at.status["conditions"]]


@jumping
async def test_a_silent_source_leaves_its_costs_until_they_expire():
    """The costs remain for the time range in the object; then they are unknown."""
    at = OperatorRig(timeRangeInMinutes=10)
    at.measure(MEASURED)
    async with at.open():
        await passed(3)
        before = at.slices
        at.store.delete(at.maps, "default", "latencies")
        await passed(9 * 60)
        assert "SourceFailed" == at.condition("Measured")[0]
        assert before == at.slices
        assert at.status["weights"]
        await passed(60)
        assert {} == at.slices
        assert not at.status["weights"]
        assert "Expired" == at.condition("Measured")[0]
        at.measure(MEASURED)
        await passed(60)
        assert before == at.slices


@jumping
async def test_a_start_without_an_answer_keeps_what_is_there():
    """A new operator whose source is down deletes no slice that is still young enough."""
    at = OperatorRig(timeRangeInMinutes=10)
    at.measure(MEASURED)
    async with at.open():
        await passed(3)
    before = at.slices
    at.store.delete(at.maps, "default", "latencies")
    at.operator = RECIPE.make(at.operator.around)  # type: ignore[attr-defined]
    for stored in at.store.list(at.resource):
        at.operator.seen(None, stored.obj)
    async with at.open():
        await passed(60)
        assert before == at.slices
        assert "SourceFailed" == at.condition("Measured")[0]
        await passed(10 * 60)

    assert {} == at.slices


@jumping
async def test_a_failed_slice_write_is_reported_and_retried():
    """The failure is reported, and the slice is written half a minute later at the latest."""
    at = OperatorRig()
    at.measure(MEASURED)
    answer = {"data": {MILLI.format(*pair): str(value) for pair, value in MEASURED.items()}}
    at.faults += [Answer(200, json.dumps(answer).encode()), *[Answer(403, message="forbidden")] * 2]
    async with at.open():
        await passed(0.1)
        assert {} == at.slices
        await passed(31)

    assert "403 forbidden" in at.reports[0]
    assert {"za", "zb"} == set(at.slices)
    assert "" == at.reports[-1]


async def made(
    nodes: list[MeasuredNode],
    latencies: dict[tuple[str, str], int],
    published: Any = (),
) -> dict[str, NetworkTopologySlice]:
    found = await samples(nodes, Reading(latencies), 0.0)
    return await slices_of(TOPOLOGY, found, published, "2026-01-01T00:00:00Z")


def paths_of(slices: Any) -> dict[tuple[str, str], int]:
    return {
        (origin.origin, path.destination): path.network_cost
        for part in slices
        for origin in part.origins
        for path in origin.paths
    }


async def test_a_thousand_nodes_fit_and_a_change_touches_one_slice():
    """Ten thousand links of nodes with long names: every slice below 1 MiB, nothing lost."""
    rng = random.Random(5)
    tail = ".a-rather-long-domain-of-a-cluster.example.com"
    nodes = [MeasuredNode(f"node-{n:04}{tail}", {ZONE_LABEL: f"z{n % 20}"}) for n in range(1000)]
    names = [node.name for node in nodes]
    latencies = {
        (one, other): rng.randrange(100, 9000)
        for one in names
        for other in rng.sample(names, 10)
        if one != other
    }
    slices = await made(nodes, latencies)
    sizes = [len(msgspec.json.encode(part)) for part in slices.values()]
    changed = dict.fromkeys(list(latencies)[:3], 50_000)
    again = await made(nodes, latencies | changed, slices.values())

    assert latencies == paths_of(slices.values())
    assert 20 == len(sizes)
    assert max(sizes) < 2**20
    assert 1 == sum(not is_same(slices[name], part) for name, part in again.items())


async def test_a_full_mesh_is_divided_and_stays_where_it_is():
    """A mesh above the object limit takes several slices; a new node moves no other row."""
    tail = "x" * 200
    nodes = [MeasuredNode(f"{n:03}{tail}", {ZONE_LABEL: "z"}) for n in range(121)]
    latencies = {(a.name, b.name): 500 for a, b in itertools.permutations(nodes[:120], 2)}
    slices = await made(nodes[:120], latencies)
    new = nodes[120].name
    more = await made(nodes, {**latencies, (new, nodes[0].name): 500}, slices.values())

    assert len(slices) == 4
    assert all(len(msgspec.json.encode(part)) < 2**20 for part in more.values())
    assert set(slices) == set(more)
    assert 1 == sum(not is_same(slices[name], part) for name, part in more.items())


names = st.sampled_from([f"n{n}" for n in range(4)])
meshes = st.dictionaries(st.tuples(names, names), st.integers(0, 400), max_size=10)


@settings(max_examples=25)
@given(meshes, meshes, st.sampled_from(["a", "A_1", ""]))
def test_slices_say_what_was_measured(first: Any, second: Any, zone: str):
    """A slice differs from the measurement by a twentieth at most; a published value is not
    rewritten.
    """
    nodes = [
        MeasuredNode(f"n{n}", {ZONE_LABEL: zone if n % 2 else "b"} if zone else {})
        for n in range(4)
    ]

    async def rounds() -> list[dict[str, NetworkTopologySlice]]:
        slices = await made(nodes, first)
        later = await made(nodes, second, slices.values())
        return [later, await made(nodes, second, later.values())]

    later, still = asyncio.run(rounds())
    own = {pair: cost for pair, cost in second.items() if pair[0] != pair[1]}
    got = paths_of(later.values())
    assert set(own) == set(got)
    assert all(abs(own[pair] - got[pair]) * 20 <= got[pair] for pair in own)
    assert set(later) == set(still)
    assert all(is_same(part, still[name]) for name, part in later.items())


def test_the_scheduler_goes_by_the_slices_that_the_operator_writes():
    """The node with the cheaper measured path to the dependency wins, in any zone."""
    nodes = [MeasuredNode(name, {ZONE_LABEL: zone}) for name, zone in ZONES.items()]
    slices = asyncio.run(made(nodes, {("n1", "n3"): 50, ("n1", "n2"): 300}))
    head = {"apiVersion": KIND.api_version, "kind": KIND.kind}
    written = [{**msgspec.to_builtins(part), **head} for part in slices.values()]
    got = evaluate(
        "NetworkMinCost",
        args={"networkTopologyName": "nt"},
        nodes=[placed_node(name, "r", zone) for name, zone in ZONES.items()],
        objects=[*written, topology(name="nt"), app_group({"a": {"b": 0}, "b": {}})],
        existing_pods=[member("b", "b", "n1")],
        pod=member("a", "a"),
    )

    assert {"n1": 0, "n2": 300, "n3": 50} == got.raw
