"""The schemas of `crds/`: complete, described, bounded, and wide enough for documents in use."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from scheduler.objects.groups.appgroup import GangStatus
from scheduler.objects.groups.podgroup import PodGroupStatus
from scheduler.sandbox.kinds.crd import check_definition
from scheduler.sandbox.kinds.schema import Schema

Json = dict[str, Any]

DEFINITIONS: dict[str, Json] = {
    definition["spec"]["names"]["kind"]: definition
    for path in sorted((Path(__file__).parents[3] / "crds").glob("*.yaml"))
    for definition in yaml.load_all(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
}
STATISTICS = {
    **dict.fromkeys(("minBandwidth", "avgBandwidth", "maxBandwidth"), "1G"),
    **dict.fromkeys(("minCost", "avgCost", "maxCost"), 0),
}
WORKLOAD = {
    "kind": "Deployment",
    "name": "p1-deployment",
    "selector": "p1",
    "apiVersion": "apps/v1",
    "namespace": "default",
}
COST = {
    "destination": "us-east-1",
    "networkCost": 20,
    "bandwidthCapacity": "10Gi",
    "bandwidthAllocated": 0,
    "isAllowed": True,
}
ORIGIN = {
    "origin": "us-west-1",
    "costList": [COST, {"destination": ""}],
    "originInterStatistics": STATISTICS,
    "originIntraStatistics": STATISTICS,
}
TOPOLOGY_LIST = [{"topologyKey": "topology.kubernetes.io/region", "originList": [ORIGIN]}]
# Every field that a schema of another project for the kind has.
IN_USE: dict[str, Json] = {
    "NetworkTopology": {
        "spec": {
            "configmapName": "netperf-metrics",
            "weights": [{"name": "UserDefined", "topologyList": TOPOLOGY_LIST}],
        },
        "status": {"nodeCount": 8, "weightCalculationTime": "2026-03-01T10:00:00Z"},
    },
    "AppGroup": {
        "spec": {
            "numMembers": 2,
            "topologySortingAlgorithm": "KahnSort",
            "workloads": [
                {
                    "workload": WORKLOAD,
                    "dependencies": [
                        {"workload": WORKLOAD, "minBandwidth": "100Mi", "maxNetworkCost": 30},
                        {"workload": WORKLOAD},
                    ],
                },
                {"workload": WORKLOAD},
            ],
        },
        "status": {
            "runningWorkloads": 0,
            "scheduleStartTime": "2026-03-01T10:00:00Z",
            "topologyCalculationTime": "2026-03-01T10:00:00Z",
            "topologyOrder": [{"workload": WORKLOAD, "index": 1, "workloadStatistics": STATISTICS}],
            "appGroupStatistics": STATISTICS,
        },
    },
}
# Kinds that are one flat report: its writer writes all of it.
WITHOUT_STATUS = ("NodeResourceTopology", "NetworkTopologySlice", "PodMixHistory")
ZONE = {
    "name": "node-0",
    "type": "Node",
    "parent": "package-0",
    "costs": [{"name": "node-0", "value": 10}, {"name": "node-1", "value": 21}],
    "attributes": [{"name": "example.com/firmware", "value": "2.1"}],
    "resources": [
        {"name": "cpu", "capacity": 32, "allocatable": "30", "available": "7500m"},
        {"name": "memory", "capacity": "64Gi", "allocatable": "60Gi", "available": 66571993088},
    ],
}
REPORT: Json = {
    "topologyPolicies": ["SingleNUMANodePodLevel"],
    "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
    "zones": [ZONE],
}


def test_reports_of_agents_stay_as_they_are():
    """Agents' reports are accepted in both versions, without loss."""
    for version in DEFINITIONS["NodeResourceTopology"]["spec"]["versions"]:
        schema = Schema(version["schema"]["openAPIV3Schema"])
        report = copy.deepcopy(REPORT)
        if version["name"] == "v1alpha1":
            del report["attributes"]
        document = copy.deepcopy(report)
        schema.fill(document)

        assert [] == schema.prune(document)
        assert [] == schema.check(document)
        assert report == document
        document["zones"][0]["resources"][0]["available"] = "many"
        assert 1 == len(schema.check(document))


def schema_of(definition: Json) -> Json:
    schema: Json = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def nodes_of(schema: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Yield every node of a schema with its path."""
    yield path, schema
    for name, inner in (schema.get("properties") or {}).items():
        yield from nodes_of(inner, f"{path}.{name}")
    if "items" in schema:
        yield from nodes_of(schema["items"], f"{path}[]")


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_every_field_is_described_and_bounded(kind: str):
    """`kubectl explain` has an answer everywhere, and no value is unbounded."""
    definition = DEFINITIONS[kind]
    check_definition(copy.deepcopy(definition))
    for path, node in nodes_of(schema_of(definition)):
        if path == ".metadata":
            assert {"type": "object"} == node  # an API server allows nothing else
            continue
        assert node.get("description"), path
        free_text = node.get("type") == "string" and not {"enum", "format"} & set(node)
        if free_text and path not in (".apiVersion", ".kind"):
            assert "maxLength" in node, path
        if node.get("type") == "array":
            assert "maxItems" in node, path
        if node.get("type") == "integer":
            assert "minimum" in node, path
            assert "format" in node, path


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_every_kind_has_status_and_columns(kind: str):
    """Status is a subresource, and `kubectl get` shows more than names and ages."""
    version, *older = DEFINITIONS[kind]["spec"]["versions"]
    columns = version["additionalPrinterColumns"]

    assert kind in WITHOUT_STATUS or {"status": {}} == version["subresources"]
    assert version["served"]
    assert version["storage"]
    assert not any(one["storage"] for one in older)
    assert "Age" == columns[-1]["name"]
    assert all(column["description"] for column in columns)
    assert len(columns) > 2


@pytest.mark.parametrize("kind", IN_USE)
def test_documents_in_use_stay_as_they_are(kind: str):
    """No field of a document in use is rejected, dropped or filled in."""
    schema = Schema(schema_of(DEFINITIONS[kind]))
    document = json.loads(json.dumps(IN_USE[kind]))
    schema.fill(document)

    assert [] == schema.prune(document)
    assert [] == schema.check(document)
    assert IN_USE[kind] == document


@pytest.mark.parametrize("kind", IN_USE)
def test_as_little_as_possible_is_required(kind: str):
    """Fields that older schemas required without any reader may be absent."""
    least: dict[str, Json] = {"NetworkTopology": {}, "AppGroup": {"workloads": []}}
    schema = Schema(schema_of(DEFINITIONS[kind]))

    assert [] == schema.check({"spec": least[kind]})


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("NetworkTopology", ("weights", 0, "topologyList", 0, "originList", 0, "costList", 0), {}),
        ("NetworkTopology", ("freqUpdate",), 0),
        ("NetworkTopology", ("metricProvider",), {"address": "http://prometheus"}),
        ("AppGroup", ("numMembers",), 0),
        ("AppGroup", ("workloads", 0, "dependencies", 0, "maxNetworkCost"), 10_001),
        ("AppGroup", ("workloads", 0, "dependencies", 0, "minBandwidth"), "fast"),
        ("AppGroup", ("workloads", 0, "workload"), {"kind": "Deployment", "name": "p1"}),
    ],
)
def test_what_cannot_be_meant_is_refused(kind: str, path: tuple[Any, ...], value: Any):
    """A wrong value is reported when it is written, not later in a scheduling decision."""
    document = copy.deepcopy({"spec": IN_USE[kind]["spec"]})
    place: Any = document["spec"]
    *parents, last = path
    for step in parents:
        place = place[step]
    place[last] = value

    assert 1 == len(Schema(schema_of(DEFINITIONS[kind])).check(document))


@pytest.mark.parametrize(
    ("kind", "path", "struct"),
    [("PodGroup", ("status",), PodGroupStatus), ("AppGroup", ("status", "gang"), GangStatus)],
)
def test_the_status_that_the_scheduler_writes_is_in_the_schema(
    kind: str, path: tuple[str, ...], struct: type[msgspec.Struct]
):
    """The API server drops fields that a schema does not have, and reports nothing."""
    schema = schema_of(DEFINITIONS[kind])
    for step in path:
        schema = schema["properties"][step]

    fields = {one.encode_name for one in msgspec.structs.fields(struct)}
    assert fields <= schema["properties"].keys()
