"""NodeResourceTopologyMatch's vectors: filter, score, placement by the engine, and small rules.

Pods of the files carry no schedulerName; the peer's tables have them placed by the scheduler under
test, so they get the name of our profile.
"""

import copy
from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.config import load
from scheduler.engine.effects import Answer, Bind, Listed, Watched
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.plain import read_node, read_object, read_pod
from scheduler.objects.quantity import milli_quantity
from scheduler.objects.reports.numaplacement import METADATA, VECTOR, encode
from scheduler.objects.reports.podfingerprint import fingerprint, mark_of
from scheduler.plugins.numa import NodeResourceTopologyMatchArgs, demand, leastnuma, zones
from scheduler.plugins.numa.reserving import is_foreign
from scheduler.plugins.numa.zones import read_zones
from scheduler.state.cluster import Cluster
from scheduler.testing import evaluate
from scheduler.testing.evaluate import look
from scheduler.testing.scene import NOW, PROFILE, Scene
from tests.vectors.frame import deviation

FOLDER = "numa"
NAME = "NodeResourceTopologyMatch"
KIND = "NodeResourceTopology"


def run_filter(vector):
    """Filter one pod; victims leave the node first, as in preemption's dry run."""
    case, expect = vector.case, vector.case["expect"]
    assert set(expect) <= {"filter", "nodeMarkedForResync"}, "unknown expectation"
    filters = _filters(case)
    for name, wanted in expect["filter"].items():
        assert set(wanted) <= {"pass", "code", "reasonContains"}, "unknown expectation"
        got = filters[name]
        if _has_sidecars(case["pod"]) and got.is_success != wanted["pass"]:
            # Resources of a sidecar stay reserved: more pods are rejected than by the peer.
            deviation("D18")
            assert not got.is_success
            _check_filter(_filters(case | {"pod": _without_sidecars(case["pod"])})[name], wanted)
            continue
        _check_filter(got, wanted)


def _check_filter(got, wanted):
    assert wanted["pass"] == got.is_success
    if not wanted["pass"]:
        assert wanted.get("code", "Unschedulable") == got.code.value
        assert wanted.get("reasonContains", "") in got.message


def _filters(case):
    scene = Scene(NAME, case.get("args"))
    pods = [_ours(_manifest(one)) for one in case.get("existingPods", ())]
    scene.fill(case["nodes"], pods, case.get("namespaces", ()), _objects(case))
    victims = {(v["namespace"], v["name"]) for v in case.get("simulatedVictims", ())}
    gone = [
        placed
        for placed in scene.cluster.pods
        if (placed.pod.metadata.namespace, placed.pod.metadata.name) in victims
    ]
    assert len(gone) == len(victims), "a victim is none of the existing pods"
    cycle = scene.cycle(read_pod(case["pod"]), NOW)
    nodes = scene.nodes()
    if gone:
        # Reports are settled with all pods in place; only then the dry run takes some away.
        look(scene, cycle, nodes=nodes)
        nodes = nodes.hypothetical(gone)
    before = _situation(scene)
    got = look(scene, cycle, nodes=nodes).filter
    if "nodeMarkedForResync" in case["expect"] and not case["expect"]["nodeMarkedForResync"]:
        assert before == _situation(scene), "a dry run must leave no trace"
    return got


def _situation(scene):
    """Return the reason why the cache waits; a node has no other mark here."""
    reserving = scene.plugin._reserving
    return {} if reserving is None else {n: b.waiting for n, b in reserving.by_node.items()}


def _objects(case):
    """Return the objects; decoded placement data is written into them as agents write it."""
    data = case.get("numaPlacement")
    objects = copy.deepcopy(case["objects"])
    if not data:
        return objects
    (topology,) = objects
    zone_of = {(one["namespace"], one["pod"], one["container"]): one["numaID"] for one in data}
    metadata, vectors = encode(zone_of, len(topology["zones"]))
    seen = {(namespace, pod) for namespace, pod, _ in zone_of}
    text = fingerprint_of(seen)
    topology.setdefault("attributes", []).extend(
        [{"name": METADATA, "value": metadata}, {"name": zones.FINGERPRINT, "value": text}]
    )
    for zone in topology["zones"]:
        number = int(zone["name"].partition("-")[2])
        if number in vectors:
            attribute = {"name": VECTOR, "value": vectors[number]}
            zone.setdefault("attributes", []).append(attribute)
    return objects


def fingerprint_of(pods):
    """Return the fingerprint of (namespace, name) pairs."""
    return fingerprint(mark_of(*pod) for pod in pods)


def run_score(vector):
    """Score one pod; raw scores, the best node, and the smallest set of zones."""
    case, expect = vector.case, vector.case["expect"]
    known = {"score", "bestNode", "numaSet", "optimalDistance", "scoreSource"}
    assert set(expect) <= known, "unknown expectation"
    got = evaluate(
        NAME,
        args=case.get("args"),
        nodes=case["nodes"],
        objects=case["objects"],
        existing_pods=[_ours(_manifest(one)) for one in case.get("existingPods", ())],
        pod=case["pod"],
    ).raw
    for name, score in expect.get("score", {}).items():
        assert score == got[name]
    if "bestNode" in expect:
        assert max(got.values()) == got[expect["bestNode"]]
        assert 1 == sum(score == got[expect["bestNode"]] for score in got.values())
    if "numaSet" in expect:
        _check_set(case, expect)


def _check_set(case, expect):
    (raw,) = case["objects"]
    zones = read_zones(read_object(raw)[1])
    asked = demand.demand_of(read_pod(case["pod"]))
    scene = Scene(NAME)
    node = {"kind": "Node", "metadata": {"name": raw["metadata"]["name"]}}
    scene.fill([node], (), (), [raw])
    plugin: Any = scene.plugin
    view = plugin._view(scene.nodes())
    stock = leastnuma.ZoneInventory(view, zones.layout, np.array([0]))
    served = leastnuma.serve(stock, asked.whole)
    chosen = sorted(zones.layout.ids[slot] for slot in leastnuma.chosen(served, 0))

    assert sorted(expect["numaSet"] or []) == chosen
    if expect["numaSet"] and "optimalDistance" in expect:
        assert expect["optimalDistance"] == bool(served.is_nearest[0])


def run_placement(vector):
    """Place one pod, or run the steps of a sequence, with this plugin alone."""
    case = vector.case
    if "steps" in case:
        _run_sequence(case)
        return
    cluster = SimulatedCluster(case)
    _check_placed(cluster.schedule(case["pod"]), case["expect"])


def _check_placed(outcome, expect):
    node, message = outcome
    assert set(expect) <= {"placedOnOneOf", "unschedulable", "reasonContains"}, (
        "unknown expectation"
    )
    if expect.get("unschedulable"):
        assert node is None
        assert expect.get("reasonContains", "") in message
    else:
        assert node in expect["placedOnOneOf"]


def _run_sequence(case):
    cluster, deleted = SimulatedCluster(case), set()
    for step in case["steps"]:
        assert set(step) <= {"schedule", "delete", "expect"}, "unknown step"
        if "delete" in step:
            cluster.delete(step["delete"])
            deleted.add((step["delete"]["namespace"], step["delete"]["name"]))
            continue
        outcome = cluster.schedule(step["schedule"])
        if deleted and case["args"].get("cacheResyncPeriodSeconds", 0) > 0:
            # A deleted pod gives its reserved amounts back: it is as if it had never been.
            deviation("D15")
            steps = [one for one in case["steps"] if "schedule" in one]
            again = SimulatedCluster(case)
            for one in steps[: steps.index(step)]:
                meta = one["schedule"]["metadata"]
                if (meta.get("namespace", "default"), meta["name"]) not in deleted:
                    again.schedule(one["schedule"])
            assert again.schedule(step["schedule"]) == outcome
            continue
        _check_placed(outcome, step["expect"])


class SimulatedCluster:
    """An engine with this plugin alone and the case's objects."""

    def __init__(self, case):
        registry = Registry(IN_TREE)
        profiles = load(_configuration(case), file="case", registry=registry).profiles
        self.engine = Engine(profiles, registry)
        self.decisions: list[Any] = []
        self.engine.observation.on_decision = lambda _q, decision: self.decisions.append(decision)
        self._see(Listed("Node", tuple(map(read_node, case["nodes"]))))
        self._see(Listed(KIND, tuple(read_object(raw)[1] for raw in case["objects"])))
        pods = [_manifest(one) for one in case.get("existingPods", ())]
        self._see(Listed("Pod", tuple(read_pod(_ours(raw)) for raw in pods)))

    def schedule(self, raw):
        """Return the node of a pod, or None, and the message."""
        pod = read_pod(_ours(raw))
        self._see(Watched("Pod", "ADDED", pod))
        effects = self.engine.run(NOW, 1)
        for bind in [effect for effect in effects if isinstance(effect, Bind)]:
            self._see(Answer(bind.id, 201))
            self.engine.run(NOW, 0)
            spec = msgspec.structs.replace(pod.spec, node_name=bind.node)
            bound = msgspec.structs.replace(pod, spec=spec)
            self._see(Watched("Pod", "MODIFIED", bound))
            return bind.node, ""
        return None, self.decisions[-1].message

    def delete(self, who):
        """Delete a bound pod."""
        for placed in list(self.engine.cluster.pods):
            meta = placed.pod.metadata
            if (meta.namespace, meta.name) == (who["namespace"], who["name"]):
                self._see(Watched("Pod", "DELETED", placed.pod))
                return
        pytest.fail(f"no pod {who} to delete")

    def _see(self, event):
        self.engine.handle(event, NOW)


def _configuration(case):
    names = ["PrioritySort", NAME, "DefaultBinder"]
    plugins = {
        "multiPoint": {
            "enabled": [{"name": name} for name in names],
            "disabled": [{"name": "*"}],
        }
    }
    profile = {
        "schedulerName": PROFILE,
        "plugins": plugins,
        "pluginConfig": [{"name": NAME, "args": case.get("args", {})}],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    return msgspec.json.encode(document).decode()


def _manifest(one):
    return one.get("manifest", one)


def _ours(raw):
    """Return a pod of the own profile, unless it names another."""
    return raw | {"spec": {"schedulerName": PROFILE} | raw["spec"]}


def _has_sidecars(raw):
    return any(c.get("restartPolicy") == "Always" for c in raw["spec"].get("initContainers", ()))


def _without_sidecars(raw):
    """Return the pod as the peer reads it: sidecars are init containers like all others."""
    init = [dict(c, restartPolicy=None) for c in raw["spec"]["initContainers"]]
    return raw | {"spec": raw["spec"] | {"initContainers": init}}


# The lists of helpers.json: one rule each.


def _topology(case):
    return read_object(
        {
            "kind": KIND,
            "metadata": {"name": "node", "annotations": case.get("annotations", {})},
            "attributes": case.get("attributes", []),
            "topologyPolicies": case.get("topologyPolicies", []),
            "zones": [],
        }
    )[1]


def run_kubelet_settings(case, expect):
    """Derive policy, scope and limit."""
    got = zones.kubelet_settings(_topology(case))
    assert expect == {
        "policy": got.policy,
        "scope": got.scope,
        "maxNUMANodes": got.most_zones,
    }


def run_exclusive(case, expect):
    """Check whether a pod requests devices, and whether it holds exclusive resources."""
    pod = read_pod(case["pod"])
    asked = demand.demand_of(pod)
    got = {
        "requestsNonNative": asked.requests_devices,
        "exclusive": demand.holds_exclusive(asked, frozenset(case["nrtResources"])),
    }
    assert set(expect) <= set(got), "unknown expectation"
    assert expect == {name: got[name] for name in expect}


def run_foreign(case, expect):
    """Check whether a pod marks its node."""
    raw = copy.deepcopy(case["pod"])
    raw["spec"].setdefault("schedulerName", "")
    cluster = Cluster()
    pod = read_pod(raw)
    if not pod.spec.node_name:
        assert not expect["foreign"], "only bound pods are foreign"
        return
    placed = cluster.put_pod(pod).after
    assert placed is not None
    listed = frozenset(case["nrtResources"])
    profiles = frozenset(case["profiles"])
    assert expect["foreign"] == is_foreign(placed, profiles, case["detect"], listed)


def run_fingerprint_source(case, expect):
    """Find the published fingerprint, and which pods it covers."""
    topology = _topology(case)
    known = {"fingerprint", "onlyExclusiveResources"}
    assert set(expect) <= known, "unknown expectation"
    if "fingerprint" in expect:
        assert expect["fingerprint"] == zones.expected_fingerprint(topology)
    if "onlyExclusiveResources" in expect:
        got = zones.counts_only_exclusive(topology, case["resyncMethod"])
        assert expect["onlyExclusiveResources"] == got


def run_assumed(case, expect):
    """Deduct reserved pods from every zone; amounts are compared in any order."""
    given = {key: value for key, value in case.items() if key != "expect"}
    topology = next(one for one in _everything(given) if one.get("kind") == KIND)
    pods = [one for one in _everything(given) if one.get("kind") == "Pod"]
    name = topology["metadata"]["name"]
    node = {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {}}}
    scene = Scene(NAME, {"cacheResyncPeriodSeconds": 5})
    scene.fill([node], (), (), [topology])
    for raw in pods:
        scene.follow(scene.cluster.assume(read_pod(_ours(raw)), name))
    plugin: Any = scene.plugin
    columns = plugin._reserving.columns
    row = scene.cluster.table.rows[name]
    zones = read_zones(read_object(topology)[1])
    got = {}
    for slot, number in enumerate(zones.layout.ids):
        for resource in zones.available:
            amount = columns.free(resource)[row, slot]
            if amount >= 0:
                got[f"node-{number}", resource] = int(amount)
    wanted = dict(_zone_amounts(expect))

    assert wanted, "nothing is expected"
    assert wanted == {key: got.get(key) for key in wanted}


def _everything(value):
    """Yield all mappings inside plain data."""
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from _everything(item)
    elif isinstance(value, list):
        for item in value:
            yield from _everything(item)


def _zone_amounts(expect):
    """Yield ((zone, resource), thousandths) from zones as mappings or as the object lists them."""
    for one in _everything(expect):
        if str(one.get("name", "")).startswith("node-"):
            for part in ("resources", "available"):
                for resource, amount in _amounts(one.get(part, {})):
                    yield (one["name"], resource), milli_quantity(amount)
        for key, value in one.items():
            if key.startswith("node-"):
                found = value.get("resources", value) if isinstance(value, dict) else value
                for resource, amount in _amounts(found):
                    yield (key, resource), milli_quantity(amount)


def _amounts(found):
    """Yield (resource, amount) of a list of resources, or of a mapping by name."""
    if isinstance(found, dict):
        for name, value in found.items():
            yield name, value["available"] if isinstance(value, dict) else value
    else:
        yield from ((one["name"], one["available"]) for one in found)


def run_args(case, expect):
    """Check that arguments are accepted or refused as expected."""
    assert set(expect) <= {"valid", "errorContains"}, "unknown expectation"
    args = msgspec.convert(case["args"], NodeResourceTopologyMatchArgs)
    faults = [f"{field}: {message}" for field, message in args.validate()]

    assert expect["valid"] == (not faults)
    if faults:
        assert expect.get("errorContains", "") in "\n".join(faults)


HELPERS = {
    "topologyManagerConfig": run_kubelet_settings,
    "exclusiveResources": run_exclusive,
    "foreignPods": run_foreign,
    "podFingerprintSource": run_fingerprint_source,
    "assumedResources": run_assumed,
    "argsValidation": run_args,
}


def run_helper(vector):
    """Run a case of one of the lists."""
    if vector.section not in HELPERS:
        pytest.fail(f"unknown list {vector.section}")
    HELPERS[vector.section](vector.case, vector.case["expect"])


RUNNERS = {
    "filter.json": run_filter,
    "helpers.json": run_helper,
    "placement.json": run_placement,
    "score.json": run_score,
}


def test_case(vector):
    """Run one case and compare its expectation."""
    if vector.file not in RUNNERS:
        pytest.fail(f"no runner for {vector.path}")
    RUNNERS[vector.file](vector)


# Tables that are no lists of cases.


def _document(root, file):
    path = root / FOLDER / file
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return msgspec.json.decode(path.read_bytes())


def test_classes_of_resources(root):
    """Every resource is of the class that the table gives it."""
    for name, wanted in _document(root, "helpers.json").get("resourceClasses", {}).items():
        assert wanted == {
            "mayLackNUMAAffinity": demand.may_be_host_level(name),
            "mustHaveNUMAAffinity": demand.is_affine(name),
        }


def test_formulas(root):
    """The two formulas of LeastNUMANodes equal the tables."""
    formulas = _document(root, "score.json").get("formulas", {})
    assert set(formulas) <= {"leastNumaRawScore", "minimalAverageDistance"}, "unknown formula"
    for row in formulas.get("leastNumaRawScore", ()):
        count, nearest = np.array([row["numaNodes"]]), np.array([row["optimalDistance"]])
        most = np.array([row["maxNUMANodes"]])
        assert row["score"] == leastnuma.raw_score(count, nearest, most)[0]
    for row in formulas.get("minimalAverageDistance", ()):
        zones = sorted({zone for one in row["combinations"] for zone in one})
        known = row["distances"] or {}
        distances = tuple(
            tuple(known.get(f"node-{a}", {}).get(f"node-{b}", 255) for b in zones) for a in zones
        )
        sets = [tuple(zones.index(zone) for zone in one) for one in row["combinations"]]
        got = min(leastnuma.average_distance(distances, one) for one in sets)
        assert np.float32(row["minimum"]) == min(got, np.float32(255))
