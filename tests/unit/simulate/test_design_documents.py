"""Every YAML and JSON document of the design texts converts, is accepted by an API server, and has
its effect.

The documents are in `designs/`, as they were published but for comments; two definitions of kinds
are no YAML even there, and today's are in crds/.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from operators.appgroup.status import ObservedGroup, merge_patch, status_of
from scheduler.base.clock import ManualClock
from scheduler.config import load
from scheduler.convert.conversion import convert
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.groups.appgroup import GROUP_LABEL, WORKLOAD_LABEL, AppGroup, AppGroupStatus
from scheduler.objects.quantity import quantity
from scheduler.sandbox.api import writing
from scheduler.sandbox.api.request import parse
from scheduler.sandbox.start import new_store
from scheduler.sandbox.store.store import ObjectStore
from scheduler.simulate.batch import Batch
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions
from scheduler.testing import node, pod
from tests.unit.plugins.networkobjects import placed_node

DESIGNS = Path(__file__).parent / "designs"
REGISTRY = Registry(IN_TREE)
JSON, JSON_PATCH = "application/json", "application/json-patch+json"
Json = dict[str, Any]


def documents(name: str) -> list[Json]:
    """Return the documents of a file."""
    text = (DESIGNS / name).read_text()
    return [json.loads(text)] if name.endswith(".json") else list(yaml.safe_load_all(text))


def converted(document: Json) -> Json:
    found = convert(document, "here").object
    assert found is not None
    return found


@pytest.fixture(scope="module")
def store() -> ObjectStore:
    """Return an API server's store with all definitions and the namespaces of the texts."""
    made = new_store(ManualClock(1_700_000_000))
    for name in ("sakkara", "test-namespace"):
        post(made, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return made


def post(store: ObjectStore, obj: Json) -> Json:
    """Create an object as `kubectl create` does, with all checks of the server."""
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = next(
        one
        for one in store.kinds
        if (one.group, one.version, one.kind) == (group, version, obj["kind"])
    )
    namespace = obj["metadata"].get("namespace", "default")
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    path = (
        f"{root}/namespaces/{namespace}/{kind.plural}"
        if kind.namespaced
        else f"{root}/{kind.plural}"
    )
    call = parse(store.kinds, "POST", path, "")
    call.body, call.content_type = json.dumps(obj).encode(), JSON
    answer = writing.create(store, call)
    assert 201 == answer.code
    assert [] == answer.warnings, answer.warnings
    made: Json = json.loads(answer.body)
    return made


def simulated(objects: list[Json], pending: list[Json], config: Json | None = None) -> Json:
    """Return the simulation of the scheduler on these objects."""
    line: Json = {"objects": objects, "pending": pending}
    if config is not None:
        line["config"] = config
    batch = Batch(Setups(REGISTRY), AnswerOptions(), lambda _name: "")
    answer: Json = json.loads(batch.answer(json.dumps(line).encode()))
    assert "error" not in answer, answer["error"]
    found: Json = answer["simulation"]
    return found


def placed(found: Json) -> dict[str, str]:
    return {one["name"]: one["node"] for one in found["pods"] if one["result"] == "Scheduled"}


OBJECTS = [
    pytest.param(document, id=f"{name}-{number}")
    for name in ("early.yaml", "later.yaml", "bandwidth.yaml", "groups.yaml")
    for number, document in enumerate(documents(name))
    if document["kind"] != "KubeSchedulerConfiguration"
]


@pytest.mark.parametrize("document", OBJECTS)
def test_an_object_converts_and_is_taken_by_an_api_server(store: ObjectStore, document: Json):
    """No field is refused or dropped, and a second conversion changes nothing."""
    today = converted(document)
    assert (today, ()) == convert(today, "here")
    # Some names occur twice: the server generates one from the given prefix.
    meta = {"generateName": "of-a-design-", **today["metadata"]}
    meta.pop("name", None)
    made = post(store, {**today, "metadata": meta})

    for field in set(today) - {"metadata", "status"}:
        assert_kept(today[field], made[field])


def assert_kept(given: Any, kept: Any) -> None:
    """Assert that the given fields are kept, whatever defaults the server has added."""
    if isinstance(given, dict):
        for key, value in given.items():
            assert_kept(value, kept[key])
    elif isinstance(given, list):
        assert len(given) == len(kept)
        for one, other in zip(given, kept, strict=True):
            assert_kept(one, other)
    elif given != kept:
        # A server normalizes quantities, and stores an empty text for an omitted value.
        assert (given is None and kept == "") or quantity(given) == quantity(kept)


@pytest.mark.parametrize("number", [0, 1])
def test_the_chain_of_the_early_design_is_ordered_and_placed(number: int):
    """P1, P2, P3, in either spelling of its dependencies; its pods are placed on one node."""
    raw = converted(documents("early.yaml")[number])
    group = msgspec.convert(raw, AppGroup)
    status = status_of(group.spec, ObservedGroup(1, AppGroupStatus(), "2026-01-01T00:00:00Z"))
    raw = raw | {"status": merge_patch(AppGroupStatus(), status)}
    network = converted(documents("later.yaml")[1])
    members = [
        pod(f"{name.lower()}-0", labels={GROUP_LABEL: "a1", WORKLOAD_LABEL: name}, spec=OURS)
        for name in ("P3", "P1", "P2")
    ]
    policy = converted(documents("policy.json")[0])
    policy["profiles"][0]["schedulerName"] = OURS["schedulerName"]
    policy["profiles"][0]["plugins"]["queueSort"] = {
        "enabled": [{"name": "TopologicalSort"}],
        "disabled": [{"name": "*"}],
    }
    policy["profiles"][0]["pluginConfig"] = [
        {"name": "NetworkMinCost", "args": {"networkTopologyName": "net-topology-test"}}
    ]
    nodes = [node_of(f"n{n}", "us-west-1", f"z{n}") for n in (1, 2)]
    found = simulated([*nodes, raw, network], members, policy)

    assert ["default/p1-0", "default/p2-0", "default/p3-0"] == found["queueOrder"]
    assert 1 == len(set(placed(found).values()))
    assert 3 == len(placed(found))


OURS = {"schedulerName": "network-aware-scheduler"}


def node_of(name: str, region: str, zone: str) -> Json:
    made: Json = placed_node(name, region, zone, cpu="8", memory="16Gi")
    return {"apiVersion": "v1", "kind": "Node", **made}


def test_the_policy_file_says_the_same_today():
    """Predicates and priorities become a profile that has NetworkMinCost with weight 5."""
    loaded = load(
        yaml.safe_dump(converted(documents("policy.json")[0])), file="x", registry=REGISTRY
    )
    weights = {one.name: one.weight for one in loaded.profiles[0].plugins["score"]}

    assert 5 == weights["NetworkMinCost"]
    assert {"NodeResourcesFit", "NodeResourcesBalancedAllocation"} <= set(weights)


def test_the_later_designs_configuration_places_its_application():
    """P1 stays in the region of P2, by the converted file, kinds and names."""
    group, network, config = map(converted, documents("later.yaml"))
    nodes = [
        node_of(f"n{n}", "us-west-1" if n < 5 else "us-east-1", f"z{(n + 1) // 2}")
        for n in range(1, 9)
    ]
    there = pod("p2", labels={GROUP_LABEL: "a1", WORKLOAD_LABEL: "P2"}, node_name="n1")
    new = pod("p1", labels={GROUP_LABEL: "a1", WORKLOAD_LABEL: "P1"}, spec=OURS)
    found = simulated([*nodes, group, network, there], [new], config)

    assert {"p1": "n1"} == placed(found)


def test_the_bandwidth_patch_and_its_pod(store: ObjectStore):
    """The patch advertises 10 Gbit/s; the pod fits there, and nowhere without."""
    made = post(store, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "k8s-node"}})
    body = {"status": {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "2", "pods": "9"}}}
    for media, content in (
        ("application/merge-patch+json", json.dumps(body).encode()),
        (JSON_PATCH, (DESIGNS / "bandwidth-patch.json").read_bytes()),
    ):
        call = parse(store.kinds, "PATCH", "/api/v1/nodes/k8s-node/status", "")
        call.body, call.content_type = content, media
        made = json.loads(writing.patch(store, call).body)
    amounts = made["status"]["capacity"]
    assert 10**10 == quantity(amounts["network.aware.com/bandwidth"])

    wide = {**made, "apiVersion": "v1", "kind": "Node"}
    wide["status"]["allocatable"] |= {
        "network.aware.com/bandwidth": amounts["network.aware.com/bandwidth"]
    }  # the work of a kubelet on capacity
    plain = {"apiVersion": "v1", "kind": "Node", **node("plain", cpu="2")}
    _, asking = documents("bandwidth.yaml")
    asking["metadata"]["namespace"] = "default"
    asking["spec"]["schedulerName"] = "trellis"
    assert {"network-aware-bandwidth-example": "k8s-node"} == placed(
        simulated([plain, wide], [asking])
    )
    assert {} == placed(simulated([plain], [asking]))


def test_the_groups_configuration_places_the_groups_job():
    """With the configuration in the ConfigMap and the tree, the eight pods of the group's job are
    packed on few racks.
    """
    tree, group, job, *_, config, _ = documents("groups.yaml")
    template = job["spec"]["template"]
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"job-a-{n}",
                "namespace": "default",
                "labels": template["metadata"]["labels"],
            },
            "spec": template["spec"],
        }
        for n in range(job["spec"]["parallelism"])
    ]
    capacity = {"cpu": "8", "memory": "16Gi", "pods": "99", "nvidia.com/gpu": "4"}
    nodes = [
        {"apiVersion": "v1", "kind": "Node", **node(f"node-{n}", allocatable=capacity)}
        for n in range(6)
    ]
    found = simulated(
        [*nodes, *map(as_stored, (tree, group))],
        pods,
        yaml.safe_load(config["data"]["config.yaml"]),
    )

    assert 8 == len(placed(found))
    (one,) = found["groups"]
    assert ("Bound", 8) == (one["status"], one["size"])
    racks = {int(name[-1]) // 3 for name in placed(found).values()}
    assert 1 == len(racks)  # twelve slots on a rack
    assert 3 == len(set(placed(found).values()))


def as_stored(obj: Json) -> Json:
    """Return an object with its labels as a server keeps them: an omitted value is empty."""
    labels = {key: value or "" for key, value in obj["metadata"]["labels"].items()}
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}}
