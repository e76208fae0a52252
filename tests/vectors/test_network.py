"""The network vectors: plugins through `evaluate`, `less` and `simulate`, rules as pure functions.

Where the result differs by a decision, a property of the case states it, and the own rule is
asserted: by `networkmodel` for costs, by the keys of policy D4b and D9 for the queue.
"""

import asyncio
import json

import msgspec
import numpy as np
import pytest

from operators.appgroup.status import ObservedGroup, ObservedPod, merge_patch, status_of
from operators.networktopology.measured import MeasuredNode, calculated, samples
from operators.networktopology.readings import read_config_map
from operators.networktopology.status import ObservedTopology as ObservedNodes
from operators.networktopology.status import status_of as topology_status_of
from scheduler.config import load
from scheduler.framework.plugin import POINTS
from scheduler.framework.registry import Registry
from scheduler.framework.status import Code
from scheduler.intree import IN_TREE
from scheduler.objects.groups.appgroup import AppGroup
from scheduler.objects.groups.grouporder import graph_of
from scheduler.objects.network import NetworkTopology
from scheduler.objects.plain import read_pod
from scheduler.plugins.groupsort import qos_class
from scheduler.plugins.network.bandwidth.risks import NodeUse, rounded, unrounded_score
from scheduler.simulate.batch import Batch
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions
from scheduler.testing import evaluate, less
from tests.vectors.frame import deviation
from tests.vectors.networkmodel import GROUP, WORKLOAD, Model, PeerError, labels_of, normalized

FOLDER = "network"
NOW = "2026-01-01T00:00:00Z"
LAST = 2**31


# NetworkOverhead


def run_overhead(vector):
    """Filter and score one pod, or place several with the default plugins beside this one."""
    case, expect = vector.case, vector.case["expect"]
    known = {"preFilter", "filter", "raw", "normalized", "scheduledOnAnyOf"}
    assert set(expect) <= known, "unknown expectation"
    if "scheduledOnAnyOf" in expect:
        _place_all(case, expect["scheduledOnAnyOf"])
        return
    peer, ours = (_model(case, is_ours) for is_ours in (False, True))
    differs = _differing(case, peer, ours)
    if differs:
        deviation(differs)
        expect = _ours_instead(case, expect, ours)
    got = _evaluated(case)
    strict = _evaluated(case, strict=True)

    assert expect.get("preFilter", "Success") == "Success"
    assert got.pre_filter.code in (Code.SUCCESS, Code.SKIP)
    for name, wanted in expect.get("filter", {}).items():
        assert set(wanted) <= {"pass", "satisfied", "violated", "code", "message"}
        _check_verdict(got.filter[name], strict.filter[name], wanted)
    skipped = dict.fromkeys(expect.get("raw", {}), 0) if got.pre_score.code is Code.SKIP else None
    for part in ("raw", "normalized"):
        if part in expect:
            # A pod without dependencies is not scored at all.
            assert expect[part] == (getattr(got, part) if skipped is None else skipped)


def _model(case, is_ours):
    return Model(
        case["pod"], case["nodes"], case["existingPods"], case["objects"], case["args"], is_ours
    )


def _differing(case, peer, ours):
    """Return the decision by which the peer's result differs, or nothing."""
    names = [node["metadata"]["name"] for node in case["nodes"]]
    try:
        same = all(peer.judge(name) == ours.judge(name) for name in names)
    except PeerError:
        return "D2"
    if same:
        return ""
    return "D7" if peer.group() == ours.group() else "D8"


def _ours_instead(case, expect, ours):
    names = case.get("scoredNodes") or [node["metadata"]["name"] for node in case["nodes"]]
    raw = {name: ours.judge(name)[2] for name in names}
    filters = {}
    for name in names:
        satisfied, violated, _ = ours.judge(name)
        filters[name] = {"pass": violated <= satisfied, "violated": violated}
    return {"filter": filters, "raw": raw, "normalized": normalized(raw)}


def _evaluated(case, **more):
    return evaluate(
        "NetworkOverhead",
        args=case["args"] | more,
        nodes=case["nodes"],
        objects=case["objects"],
        existing_pods=[pod for pod in case["existingPods"] if pod["spec"].get("nodeName")],
        pod=case["pod"],
        feasible_nodes=case.get("scoredNodes"),
    )


def _check_verdict(got, strict, wanted):
    """The strict filter shows the counts also where the majority rule accepts a node."""
    assert wanted["pass"] == got.is_success
    if "violated" in wanted:
        assert (wanted["violated"] == 0) == strict.is_success
        if "satisfied" in wanted and wanted["violated"]:
            counts = f"Satisfied: {wanted['satisfied']} Violated: {wanted['violated']}"
            assert strict.message.endswith(counts)
    if not wanted["pass"]:
        assert wanted.get("code", "Unschedulable") == got.code.value
        assert wanted.get("message", got.message) == got.message


def _place_all(case, allowed):
    plugins = {"multiPoint": {"enabled": [{"name": "NetworkOverhead"}]}}
    config = _config(plugins, {"NetworkOverhead": case["args"]})
    pods = _simulated(config, [*case["nodes"], *case["objects"]], case["podsInOrder"])["pods"]

    assert set(allowed) == {pod["name"] for pod in pods}
    assert all(pod["node"] in allowed[pod["name"]] for pod in pods)


# The queue


def run_sort(vector):
    """Compare two pods, or empty a queue of them."""
    case, expect = vector.case, vector.case["expect"]
    assert set(expect) <= {"less", "lessReversed", "popOrder"}, "unknown expectation"
    if "popOrder" in expect:
        _pop_all(vector, case, expect["popOrder"])
        return
    first, second = case["first"], case["second"]
    got = _less(vector, first, second), _less(vector, second, first)
    wanted = expect["less"], expect.get("lessReversed", got[1])
    differs = _sorted_differently(vector, first["pod"], second["pod"])
    if differs and got != wanted:
        deviation(differs)
        keys = _keys(vector, (first, second))
        wanted = keys[0] < keys[1], keys[1] < keys[0]

    assert wanted == got


def _less(vector, first, second):
    times = float(first.get("queuedAtSeconds", 0)), float(second.get("queuedAtSeconds", 0))
    return less(
        vector.plugin,
        first["pod"],
        second["pod"],
        args=vector.case.get("args"),
        objects=vector.case.get("objects", ()),
        queued_at=times,
    )


def _sorted_differently(vector, *pods):
    """Return the decision that orders these pods differently from the peer, or nothing."""
    if vector.plugin != "TopologicalSort":
        return ""
    groups = [labels_of(pod).get(GROUP, "") for pod in pods]
    if not groups[0] or len(set(groups)) > 1:
        classes = {qos_class(read_pod(pod)) for pod in pods}
        return "D4b" if len(classes) > 1 or any(groups) else ""
    indices = [_index(vector, pod) for pod in pods]
    return "D9" if LAST in indices or len(set(indices)) < len(indices) else ""


def _group(vector, pod):
    """Return the AppGroup of a pod: that of its own namespace first (D8); None without one."""
    space = pod["metadata"].get("namespace", "default")
    spaces = [space, *((vector.case.get("args") or {}).get("namespaces") or ["default"])]
    groups = [raw for raw in vector.case.get("objects", ()) if raw["kind"] == "AppGroup"]
    named = [raw for raw in groups if raw["metadata"]["name"] == labels_of(pod).get(GROUP)]
    found = [raw for one in spaces for raw in named if raw["metadata"]["namespace"] == one]
    return found[0] if found else None


def _index(vector, pod):
    """Return the index of a pod's workload: by selector or name, unknown ones last (D9)."""
    label, group = labels_of(pod).get(WORKLOAD, ""), _group(vector, pod)
    order = group.get("status", {}).get("topologyOrder") or [] if group else []
    for field in ("selector", "name"):
        for entry in order:
            if label and entry["workload"].get(field) == label:
                return entry["index"]
    return LAST


def _keys(vector, queued):
    """Return the keys of policy D4b, with these pods as all that wait."""
    own = [
        (
            -(one["pod"]["spec"].get("priority") or 0),
            qos_class(read_pod(one["pod"])),
            float(one.get("queuedAtSeconds", 0)),
        )
        for one in queued
    ]
    found = [_group(vector, one["pod"]) for one in queued]
    groups = ["{namespace}/{name}".format(**g["metadata"]) if g else "" for g in found]
    keys = []
    for number, one in enumerate(queued):
        mates = [own[n] for n, group in enumerate(groups) if group and group == groups[number]]
        best = tuple(map(min, *mates)) if len(mates) > 1 else own[number]
        inside = (_index(vector, one["pod"]), own[number][0], own[number][2])
        uid = read_pod(one["pod"]).metadata.uid
        keys.append((best, groups[number], (*inside, uid) if groups[number] else ()))
    return keys


def _pop_all(vector, case, order):
    plugins = {"queueSort": {"enabled": [{"name": vector.plugin}], "disabled": [{"name": "*"}]}}
    args = {vector.plugin: case["args"]} if case.get("args") else {}
    simulation = _simulated(
        _config(plugins, args), case.get("objects", []), case["podsInCreationOrder"]
    )
    names = [key.partition("/")[2] for key in simulation["queueOrder"]]
    differs = _sorted_differently(vector, *case["podsInCreationOrder"])
    if differs and names != order:
        deviation(differs)
        queued = [{"pod": pod} for pod in case["podsInCreationOrder"]]
        keys = dict(
            zip(
                (one["pod"]["metadata"]["name"] for one in queued),
                _keys(vector, queued),
                strict=True,
            )
        )
        order = sorted(names, key=lambda name: keys[name])

    assert order == names


# Arguments and profiles


def run_args(vector):
    """Decode arguments, or a profile's lists, through the reader of configuration files."""
    case, expect = vector.case, vector.case["expect"]
    assert set(expect) <= {"args", "enabled", "otherPoints"}, "unknown expectation"
    if case["kind"] == "plugins":
        _check_lists(case["given"], expect)
        return
    name = case["kind"].removesuffix("Args")
    (spec,) = load(
        json.dumps(_config(_enabling(name), {name: case["given"]})),
        file="case",
        registry=Registry(IN_TREE),
    ).profiles
    args = json.loads(msgspec.json.encode(spec.args[name]))

    assert expect["args"] == {key: args[key] for key in expect["args"]}


def _enabling(name):
    if name == "TopologicalSort":
        return {"queueSort": {"enabled": [{"name": name}], "disabled": [{"name": "*"}]}}
    return {"multiPoint": {"enabled": [{"name": name}]}}


def _check_lists(given, expect):
    lists, usual = _lists(given), _lists({})
    for point, names in expect["enabled"].items():
        wanted = [
            one for name in names for one in (usual[point] if name == "<defaults>" else [name])
        ]
        assert sorted(wanted) == sorted(lists[point]), point
    if "otherPoints" in expect:
        assert expect["otherPoints"] == "defaults"
        for point in set(POINTS.values()) - set(expect["enabled"]):
            assert usual[point] == lists[point], point


def _lists(plugins):
    text = json.dumps(_config(plugins, {}))
    (spec,) = load(text, file="case", registry=Registry(IN_TREE)).profiles
    return {
        point: [listed.name for listed in spec.plugins.get(point, ())] for point in POINTS.values()
    }


def _config(plugins, args):
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "trellis",
                "plugins": plugins,
                "pluginConfig": [{"name": name, "args": one} for name, one in args.items()],
            }
        ],
    }


def _simulated(config, objects, pending):
    times = {}
    for number, pod in enumerate(pending):
        created = f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z"
        times[pod["metadata"]["name"]] = created
    line = {
        "id": "case",
        "config": config,
        "objects": objects,
        "pending": [
            pod
            | {"metadata": pod["metadata"] | {"creationTimestamp": times[pod["metadata"]["name"]]}}
            for pod in pending
        ],
    }
    batch = Batch(Setups(Registry(IN_TREE)), AnswerOptions(), lambda _name: "")
    answer = json.loads(batch.answer(json.dumps(line).encode()))

    assert "error" not in answer, answer.get("error")
    return answer["simulation"]


# LoadVariationRiskBalancing


def run_risk(vector):
    """Compare the formula alone, or the plugin's score."""
    case, expect = vector.case, vector.case["expect"]
    assert set(expect) == {"score"}, "unknown expectation"
    if "stats" in case:
        stats = {name: float(value) for name, value in case["stats"].items()}
        use = NodeUse(
            np.array([stats["capacity"]]),
            stats["request"],
            np.array([stats["usedAverage"]]),
            np.array([stats["usedStdev"]]),
        )
        score = rounded(unrounded_score(use, case["margin"], case["sensitivity"]))

        assert [expect["score"]] == score.tolist()
        return
    got = evaluate(
        vector.plugin,
        args=case.get("args"),
        nodes=case["nodes"],
        objects=_watcher(case["metrics"]),
        existing_pods=case.get("existingPods", ()),
        pod=case["pod"],
    )

    assert expect["score"] == got.normalized


def _watcher(metrics):
    if metrics is None:
        return []
    data = {name: {"metrics": figures} for name, figures in metrics.items()}
    return [
        {
            "apiVersion": "trellis.dev/v1alpha1",
            "kind": "WatcherMetrics",
            "metadata": {"name": "load-watcher"},
            "data": {"NodeMetricsMap": data},
        }
    ]


# The operators' rules


def run_app_group(vector):
    """Work out the status of an AppGroup and compare it with the controller's."""
    case, expect = vector.case, vector.case["expect"]
    known = {"runningWorkloads", "topologyOrder", "topologyOrderMatches", "specWorkloadsOrder"}
    assert set(expect) <= known, "unknown expectation"
    (raw,) = (one for one in case["objects"] if one["kind"] == "AppGroup")
    group = msgspec.convert(raw, AppGroup)
    status = status_of(group.spec, ObservedGroup(1, group.status, NOW, _pods_of(case, raw)))
    order = [e.workload.selector for e in sorted(status.topology_order, key=lambda e: e.index)]

    assert expect.get("runningWorkloads", status.running_workloads) == status.running_workloads
    if "topologyOrderMatches" in expect:
        _check_order(group, order)
    elif "topologyOrder" in expect:
        _check_exact_order(group, order, status, expect["topologyOrder"])
    listed = [entry["workload"]["selector"] for entry in raw["spec"]["workloads"]]
    if expect.get("specWorkloadsOrder", listed) != listed:
        deviation("D10")  # the user's spec is never written to
        assert "spec" not in merge_patch(group.status, status)


def _pods_of(case, group):
    return tuple(
        ObservedPod(
            pod["metadata"].get("namespace", "default"),
            pod["metadata"]["name"],
            labels_of(pod).get(WORKLOAD, ""),
            pod.get("status", {}).get("phase", ""),
            pod["spec"].get("nodeName", ""),
        )
        for pod in case.get("pods", ())
        if labels_of(pod).get(GROUP) == group["metadata"]["name"]
    )


def _check_exact_order(group, order, status, expected):
    workloads = group.spec.members
    named = {d.workload.name for entry in workloads for d in entry.dependencies}
    named |= {entry.workload.name for entry in workloads if entry.dependencies}
    selectors = {entry.workload.selector for entry in workloads}
    graph = graph_of(workloads)
    alone = {
        label
        for label, on in graph.items()
        if not on and not any(label in others for others in graph.values())
    }
    if expected.get("byIndex") == order:
        stored = [
            {"selector": e.workload.selector, "index": e.index} for e in status.topology_order
        ]
        assert expected.get("bySelector", stored) == stored
    elif named - selectors:
        deviation("D9")  # by name as well as by selector
        _check_order(group, order)
    else:
        deviation("D10")
        assert alone, "an order like any other"
        assert set(order) == set(graph), "everybody gets an index"
        assert [label for label in order if label not in alone] == [
            label for label in expected.get("byIndex", []) if label not in alone
        ]


def _check_order(group, order):
    """Assert that the order, with its arrangement undone, puts each workload before its
    dependencies.
    """
    algorithm = group.spec.topology_sorting_algorithm
    graph = graph_of(group.spec.members)
    if algorithm.startswith("Reverse"):
        order = order[::-1]
    elif algorithm.startswith("Alternate"):
        order = order[::2] + order[1::2][::-1]

    assert sorted(graph) == sorted(order)
    for label, on in graph.items():
        assert all(order.index(label) < order.index(other) for other in on)


def run_topology(vector):
    """Work out the status and the measured costs of a NetworkTopology."""
    case, expect = vector.case, vector.case["expect"]
    known = {"status", "weightNames", "netperfTopologyList", "netperfCosts", "unchanged"}
    assert set(expect) <= known, "unknown expectation"
    (raw,) = (one for one in case["objects"] if one["kind"] == "NetworkTopology")
    topology = msgspec.convert(raw, NetworkTopology)
    observed = ObservedNodes(len(case["nodes"]), 1, topology.status, NOW)
    status = topology_status_of(topology.spec, observed)
    nodes = [MeasuredNode(node["metadata"]["name"], labels_of(node)) for node in case["nodes"]]
    data = (case["configMap"] or {}).get("data", {})
    reading = read_config_map(data)
    latencies, weights = reading.latencies, asyncio.run(_measured(nodes, reading))

    assert expect.get("status", {}).get("nodeCount", len(nodes)) == status.node_count
    assert set(expect.get("status", {})) <= {"nodeCount"}
    if "weightNames" in expect:
        deviation("D6")  # computed tables are in status, and the user's tables all stay
        assert "UserDefined" in expect["weightNames"]
        assert [weights.name] == expect["weightNames"][1:]
    if "unchanged" in expect:
        assert case["configMap"] is None
        assert not any(origin.paths for level in weights.levels for origin in level.origins)
    for key in ("netperfCosts", "netperfTopologyList"):
        if key in expect:
            costs = expect[key] if key == "netperfCosts" else _costs(expect[key])
            _check_costs(costs, weights, nodes, data, latencies)


async def _measured(nodes, reading):
    return (await calculated(await samples(nodes, reading, 0.0))).table


def _costs(topology_list):
    return {
        level["topologyKey"]: {
            origin["origin"]: {
                path["destination"]: path["networkCost"] for path in origin.get("costList") or []
            }
            for origin in level["originList"]
        }
        for level in topology_list
    }


def _check_costs(expected, weights, nodes, data, latencies):
    got = {
        level.topology_key: {
            origin.origin: {path.destination: path.network_cost for path in origin.paths}
            for origin in level.origins
        }
        for level in weights.levels
    }
    for level, origins in expected.items():
        assert set(origins) == set(got[level])
        for origin, paths in origins.items():
            for destination, cost in paths.items():
                ours = got[level][origin].get(destination)
                if _is_measured(level, origin, destination, nodes, data):
                    assert cost == ours, (level, origin, destination)
                else:
                    # a link that is not measured (or in the other spelling) is not free
                    deviation("D7")
                    assert ours is None or ours > 0 or 0 in latencies.values()


def _is_measured(level, origin, destination, nodes, data):
    """Return whether the peer finds a measurement for every pair of nodes at the two ends."""
    at = {
        end: [node.name for node in nodes if node.labels.get(level, "") == end]
        for end in (origin, destination)
    }
    key = "netperf.p90.latency.milliseconds.origin.{}.destination.{}".format
    return all(
        data.get(key(*pair), "").isdigit()
        for one in at[origin]
        for other in at[destination]
        for pair in ((one, other), (other, one))
    )


RUNNERS = {
    "appgroup-controller.json": run_app_group,
    "loadvariationriskbalancing.json": run_risk,
    "networkoverhead.json": run_overhead,
    "networktopology-controller.json": run_topology,
    "pluginargs.json": run_args,
    "qossort.json": run_sort,
    "topologicalsort.json": run_sort,
}


def test_case(vector):
    """Run one case and compare its expectation."""
    if vector.file not in RUNNERS:
        pytest.fail(f"no runner for {vector.path}")
    RUNNERS[vector.file](vector)
