"""Koordinator's vectors for load-aware placement, through `evaluate` and the family's functions."""

import msgspec
import pytest

from scheduler.base.clock import rfc3339_micro
from scheduler.objects.plain import plain_data, read_as, read_node, read_object, read_pod
from scheduler.objects.quantity import resource_amount
from scheduler.objects.reports.nodemetric import NodeMetric
from scheduler.plugins.loadaware import LoadAwareScheduling
from scheduler.plugins.loadaware.args import LoadAwareSchedulingArgs, range_faults
from scheduler.plugins.loadaware.estimate import estimate
from scheduler.plugins.loadaware.limits import divisor
from scheduler.plugins.loadaware.nodeload import NO_DEADLINE, NodeLoad, forced_until
from scheduler.plugins.loadaware.report import read_report
from scheduler.plugins.loadaware.settings import percentile, settings_of
from scheduler.testing import evaluate
from scheduler.testing.builders import node
from scheduler.testing.scene import NOW, Scene
from tests.vectors.frame import deviation
from tests.vectors.loadmodel import Model, duration_s, seconds_for_durations

FOLDER = "loadaware"
PLUGIN = "LoadAwareScheduling"
DURATIONS = ("usageAggregatedDuration", "scoreAggregatedDuration")


def at(value, write):
    """Replace every `{"secondsAgo": n}` by its time, as `write` formats it."""
    if isinstance(value, list):
        return [at(item, write) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"secondsAgo"}:
        return write(NOW - value["secondsAgo"])
    return {key: at(item, write) for key, item in value.items()}


def manifests(value):
    """Return manifests with times as Kubernetes writes them."""
    return at(value, rfc3339_micro)


def numbers(value):
    """Return manifests with times and durations as seconds, for the model."""
    return seconds_for_durations(at(value, float))


def read_args(given):
    """Return the arguments as a file gives them: durations as texts."""
    given = plain_data(given)
    aggregated = given.get("aggregated")
    if aggregated:
        given = given | {"aggregated": dict(aggregated)}
        for field in DURATIONS:
            if isinstance(aggregated.get(field), dict):
                given["aggregated"][field] = f"{aggregated[field]['seconds']}s"
    return given


def settings(given):
    """Return the settings of arguments that are not validated."""
    return settings_of(msgspec.convert(read_args(given), LoadAwareSchedulingArgs))


def is_scheduled(condition):
    """Return whether a condition states that the pod has been assigned."""
    return condition["type"] == "PodScheduled" and condition["status"] == "True"


def existing(case):
    """Return the pods on nodes; the age of the assignment is in their condition."""
    found = []
    for one in case.get("existingPods", ()):
        pod = dict(one["manifest"])
        status = dict(pod.get("status") or {})
        scheduled = {
            "type": "PodScheduled",
            "status": "True",
            "lastTransitionTime": {"secondsAgo": one["assignedSecondsAgo"]},
        }
        conditions = [scheduled | c for c in status.get("conditions") or [] if is_scheduled(c)]
        conditions += [c for c in status.get("conditions") or [] if not is_scheduled(c)]
        if not any(map(is_scheduled, conditions)):
            conditions.append(scheduled)
        found.append(pod | {"status": status | {"conditions": conditions}})
    return found


def run_decision(vector):
    """Run filter or score on one pod; an unreported percentile follows the own rule (D17)."""
    case, expect = vector.case, vector.case["expect"]
    model = Model(numbers(read_args(case["args"])))
    peer = Model(numbers(read_args(case["args"])), peer=True)
    got = evaluate(
        PLUGIN,
        args=read_args(case["args"]),
        nodes=manifests(case["nodes"]),
        objects=manifests(case["objects"]),
        existing_pods=manifests(existing(case)),
        pod=manifests(case["pod"]),
        now=NOW,
    )

    assert set(expect) <= {"filter", "score"}, "unknown expectation"
    for name in {*expect.get("filter", {}), *expect.get("score", {})}:
        ours, theirs = modelled(model, case, name), modelled(peer, case, name)
        differs = ours != theirs
        if "filter" in expect:
            wanted = expect["filter"][name]
            assert set(wanted) <= {"pass", "code", "reasonContains"}, "unknown expectation"
            _check_filter(got.filter[name], wanted if not differs else deviated(ours[0]))
            assert wanted["pass"] is (theirs[0] == ""), "the model of the peer is wrong"
        if "score" in expect:
            assert expect["score"][name] == theirs[1], "the model of the peer is wrong"
            assert got.raw[name] == (ours[1] if differs else expect["score"][name])
        if differs:
            deviation("D17")


def deviated(reason):
    """Return the expectation where the peer differs."""
    return {"pass": not reason, "code": "Unschedulable", "reasonContains": reason}


def modelled(model, case, name):
    """Return the result of a model for a node: the reason to reject it, and its score."""
    raw = next(n for n in numbers(case["nodes"]) if n["metadata"]["name"] == name)
    objects = numbers(case["objects"])
    report = next((one for one in objects if one["metadata"]["name"] == name), None)
    pods = [one for one in numbers(existing(case)) if one["spec"].get("nodeName") == name]
    pod = numbers(case["pod"])
    return model.filter(raw, report, pods, pod, NOW), model.score(raw, report, pods, pod, NOW)


def _check_filter(status, wanted):
    assert status.is_success is wanted["pass"]
    if not wanted["pass"]:
        assert status.code.value == wanted.get("code", "Unschedulable")
        assert wanted["reasonContains"] in status.message


def run_estimator(vector):
    """Run the function under test that a vector's section names."""
    if vector.section not in SECTIONS:
        pytest.fail(f"unknown list {vector.section}")
    SECTIONS[vector.section](vector.case, vector.case["expect"])


def pod_estimates(case, expect):
    """Compare the estimate of one pod."""
    chosen = settings(case["args"])
    found = dict(zip(chosen.resources, estimate(read_pod(case["pod"]), chosen), strict=True))

    assert set(expect) == {"estimate"}, "unknown expectation"
    wanted = expect["estimate"]
    assert set(wanted) <= {"cpuMilli", "memoryBytes"}, "unknown expectation"
    assert wanted == {
        key: found[name]
        for key, name in (("cpuMilli", "cpu"), ("memoryBytes", "memory"))
        if key in wanted
    }


def node_allocatable(case, expect):
    """Compare the amounts that percentages are taken of."""
    assert set(expect) == {"allocatable"}, "unknown expectation"
    wanted = expect["allocatable"]
    chosen = settings({"supportedResources": sorted(wanted)})
    found = dict(zip(chosen.resources, divisor(read_node(case["node"]), chosen), strict=True))
    assert amounts(wanted) == {name: amount for name, amount in found.items() if amount}


def aggregated_usage(case, expect):
    """Compare the usage picked for a percentile; one that is not reported is replaced (D17)."""
    assert set(expect) == {"usage"}, "unknown expectation"
    (raw,) = manifests(case["objects"])
    kind, _ = read_object(raw)
    metric = read_as(kind, raw)
    assert isinstance(metric, NodeMetric)
    wanted = percentile(case["aggregationType"], case["aggregatedDuration"])
    chosen = settings({})
    picked = read_report(metric, chosen).choose(wanted)
    found = {n: a for n, a in zip(chosen.resources, picked.usage, strict=True) if a}
    (report,) = numbers(case["objects"])
    ours, exact = Model({}).picked(
        report, case["aggregationType"], duration_s(case["aggregatedDuration"])
    )
    if not exact:
        deviation("D17")
        assert picked.is_substitute
        assert found == {name: amount for name, amount in ours.items() if amount}
        return
    assert found == {n: a for n, a in amounts(expect["usage"] or {}).items() if a}


def forced_estimation(case, expect):
    """Compare the end of the forced estimate of a pod."""
    assert set(expect) == {"forcedEstimationUntil"}, "unknown expectation"
    pod = read_pod(manifests(case["pod"]))
    found = forced_until(pod, NOW - case["assignedSecondsAgo"], settings(case["args"]))
    wanted = expect["forcedEstimationUntil"]
    assert found == (NO_DEADLINE if wanted is None else NOW + wanted["secondsFromNow"])


def accounting(case, expect):
    """Compare the sums of one node."""
    objects = manifests(case["objects"])
    placed = [pod for pod in manifests(existing(case)) if pod["spec"].get("nodeName")]
    names = {one["metadata"]["name"] for one in objects} or {p["spec"]["nodeName"] for p in placed}
    (name,) = names
    scene = Scene(PLUGIN, read_args(case["args"]))
    scene.fill([node(name)], placed, objects=objects)
    plugin = scene.plugin
    assert isinstance(plugin, LoadAwareScheduling)
    # Without a report nothing is computed.
    load = plugin.tracker.load(name) or NodeLoad(len(plugin.settings.resources))
    load.count_prod(counts=True)
    uids = {placed.pod.metadata.uid: placed.pod.metadata.name for placed in scene.cluster.pods}
    sums = {
        "prodUsage": load.production(),
        "nodeDelta": load.node_delta,
        "prodDelta": load.prod_delta,
        "nodeEstimated": load.estimated(),
    }
    lists = {
        "podsInNodeDelta": load.in_node_delta(),
        "podsInProdDelta": load.in_prod_delta(),
    }

    assert set(expect) <= {*sums, *lists}, "unknown expectation"
    resources = plugin.settings.resources
    for key, wanted in expect.items():
        if key in sums:
            found = dict(zip(resources, sums[key], strict=True))
            assert amounts(wanted or {}) == {r: found[r] for r in wanted or {}}, key
        else:
            assert sorted(wanted or ()) == sorted(uids[uid] for uid in lists[key]), key


def args_validation(case, expect):
    """Compare whether arguments are in range, without defaults."""
    assert set(expect) == {"valid"}, "unknown expectation"
    try:
        args = msgspec.convert(read_args(case["args"]), LoadAwareSchedulingArgs)
    except msgspec.ValidationError:
        assert not expect["valid"]
        return
    assert expect["valid"] is not any(True for _ in range_faults(args))


def amounts(quantities):
    """Read quantities: cpu in milli, everything else in whole units."""
    return {name: resource_amount(name, str(value)) for name, value in quantities.items()}


SECTIONS = {
    "podEstimates": pod_estimates,
    "nodeAllocatable": node_allocatable,
    "aggregatedUsage": aggregated_usage,
    "forcedEstimation": forced_estimation,
    "accounting": accounting,
    "argsValidation": args_validation,
}

RUNNERS = {
    "estimator.json": run_estimator,
    "filter.json": run_decision,
    "score.json": run_decision,
}


def test_case(vector):
    """The case's expectation is met, or that of a decision of the policy."""
    if vector.file not in RUNNERS:
        pytest.fail(f"no runner for {vector.path}")
    RUNNERS[vector.file](vector)
