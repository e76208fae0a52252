"""Load accounting follows events exactly, in any order and with any content.

A machine changes a cluster at random: nodes, reports with clocks that go back and forth, pods that
are assumed, bound, changed, forgotten. After each step the ledger must equal a rebuilt one, and at
the end filter and score must equal a slow model that reads only the manifests.
"""

import json
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scheduler.base.clock import parse_rfc3339, rfc3339
from scheduler.objects.plain import read_node, read_object, read_pod
from scheduler.plugins.loadaware import LoadAwareScheduling
from scheduler.testing import evaluate
from scheduler.testing.builders import node
from scheduler.testing.evaluate import look
from scheduler.testing.scene import NOW, Scene
from tests.vectors.loadmodel import Model, read

PLUGIN = LoadAwareScheduling
DOMAIN = "scheduling.koordinator.sh"
NODES = ("n0", "n1", "n2")

CPUS = st.sampled_from(["0", "100m", "1", "2500m", "7", "1234567890n", "16"])
MEMORIES = st.sampled_from(["0", "64Mi", "1Gi", "3000000k", "17Gi"])
AGES = st.sampled_from([-3600, -1, 0, 10, 59, 60, 61, 179, 180, 900])
AMOUNTS = st.fixed_dictionaries({}, optional={"cpu": CPUS, "memory": MEMORIES})
PERCENTS = st.fixed_dictionaries(
    {},
    optional={"cpu": st.integers(0, 100), "memory": st.integers(0, 100)},
)
KINDS = st.sampled_from(["avg", "p50", "p95"])
DURATIONS = st.sampled_from(["", "5m0s", "10m0s", "30m0s"])

ARGS = st.fixed_dictionaries(
    {},
    optional={
        "filterExpiredNodeMetrics": st.booleans(),
        "enableScheduleWhenNodeMetricsExpired": st.booleans(),
        "usageThresholds": PERCENTS,
        "prodUsageThresholds": PERCENTS,
        "prodUsageIncludeSys": st.booleans(),
        "scoreAccordingProdUsage": st.booleans(),
        "dominantResourceWeight": st.integers(0, 3),
        "estimatedSecondsAfterPodScheduled": st.sampled_from([30, 600]),
        "estimatedSecondsAfterInitialized": st.sampled_from([30, 600]),
        "allowCustomizeEstimation": st.booleans(),
        "estimateInFilter": st.booleans(),
        "scoringStrategy": st.sampled_from(["LeastUsed", "MostUsed"]),
        "aggregated": st.fixed_dictionaries(
            {},
            optional={
                "usageThresholds": PERCENTS,
                "usageAggregationType": KINDS,
                "usageAggregatedDuration": DURATIONS,
                "scoreAggregationType": KINDS,
                "scoreAggregatedDuration": DURATIONS,
            },
        ),
    },
)

THRESHOLDS = st.fixed_dictionaries(
    {},
    optional={
        "usageThresholds": PERCENTS,
        "prodUsageThresholds": PERCENTS,
        "aggregatedUsage": st.fixed_dictionaries(
            {"usageThresholds": PERCENTS, "usageAggregationType": KINDS},
            optional={"usageAggregatedDuration": DURATIONS},
        ),
    },
)


@st.composite
def nodes(draw, name):
    """Return a node with or without annotations."""
    found = node(name, cpu=draw(st.sampled_from(["8", "16", "96"])), memory="32Gi")
    annotations = {}
    if draw(st.booleans()):
        annotations[f"{DOMAIN}/usage-thresholds"] = json.dumps(draw(THRESHOLDS))
    if draw(st.booleans()):
        annotations["node.koordinator.sh/raw-allocatable"] = json.dumps(draw(AMOUNTS))
    found["metadata"]["annotations"] = annotations
    return found


@st.composite
def pods(draw, name, node_name=""):
    """Return a pod of any class and age."""
    labels = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "koordinator.sh/priority-class": st.sampled_from(["koord-prod", "koord-mid", "x"]),
                "koordinator.sh/qosClass": st.sampled_from(["BE", "LS", "?"]),
            },
        )
    )
    annotations = draw(
        st.fixed_dictionaries(
            {},
            optional={
                f"{DOMAIN}/reserve-pod": st.sampled_from(["true", "false"]),
                f"{DOMAIN}/load-estimated-scaling-factors": st.sampled_from(['{"cpu": 150}', "{"]),
                f"{DOMAIN}/load-estimated-seconds-after-pod-scheduled": st.sampled_from(
                    ["90", "-1", "x"]
                ),
            },
        )
    )
    resources = {"requests": draw(AMOUNTS), "limits": draw(AMOUNTS)}
    conditions = [
        {"type": kind, "status": draw(st.sampled_from(["True", "False"])), **since(draw(AGES))}
        for kind in draw(st.sets(st.sampled_from(["PodScheduled", "Initialized"])))
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": f"uid-{name}",
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {
            "nodeName": node_name,
            "priority": draw(st.sampled_from([0, 9500, 7500, 5500, 3500])),
            "containers": [{"name": "main", "image": "app:1", "resources": resources}],
            "overhead": draw(AMOUNTS),
        },
        "status": {
            "qosClass": draw(st.sampled_from(["", "Guaranteed", "Burstable", "BestEffort"])),
            "conditions": conditions,
        },
    }


def since(age_s):
    """Return the time of a condition, in both forms: as text, and for the model."""
    return {"lastTransitionTime": rfc3339(NOW - age_s)}


@st.composite
def reports(draw, name):
    """Return a NodeMetric; its time may go back, or lie ahead."""
    status: dict[str, Any] = {
        "podsMetric": [
            {
                "namespace": "default",
                "name": pod,
                "priority": draw(st.sampled_from(["koord-prod", "koord-mid", ""])),
                "podUsage": {"resources": draw(AMOUNTS)},
            }
            for pod in draw(st.sets(st.sampled_from(["p0", "p1", "p2", "p3", "ghost"])))
        ]
    }
    age_s = draw(st.none() | AGES)
    if age_s is not None:
        status["updateTime"] = rfc3339(NOW - age_s)
    if draw(st.integers(0, 4)):
        status["nodeMetric"] = {
            "nodeUsage": {"resources": draw(AMOUNTS)},
            "systemUsage": {"resources": draw(AMOUNTS)},
            "aggregatedNodeUsages": [
                {"duration": duration, "usage": {draw(KINDS): {"resources": draw(AMOUNTS)}}}
                for duration in draw(st.sets(st.sampled_from(["5m0s", "10m0s", "15m0s"])))
            ],
        }
    policy = draw(st.sampled_from([{}, {"reportIntervalSeconds": 30}]))
    return {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": name},
        "spec": {"metricCollectPolicy": policy},
        "status": status,
    }


class Accounts(RuleBasedStateMachine):
    """Drives a cluster with the plugin's ledger beside it."""

    @initialize(args=ARGS, first=nodes("n0"), report=reports("n0"))
    def begin(self, args, first, report):
        """Start with some arguments and a node that has reported."""
        self.args = args
        self.known, self.pods, self.reports = {"n0": first}, {}, {"n0": report}
        self.scene = Scene(PLUGIN, args)
        self.scene.fill([first], objects=[report])

    @rule(data=st.data())
    def put_node(self, data):
        """A node appears or changes."""
        name = data.draw(st.sampled_from(NODES))
        raw = self.known[name] = data.draw(nodes(name))
        self.scene.follow(self.scene.cluster.put_node(read_node(raw)))

    @rule(data=st.data())
    def drop_node(self, data):
        """Delete a node; its pods and report stay for a while."""
        if not self.known:
            return
        name = data.draw(st.sampled_from(sorted(self.known)))
        del self.known[name]
        self.scene.follow(self.scene.cluster.drop_node(name))

    @rule(data=st.data())
    def put_report(self, data):
        """A report arrives, perhaps one of an unknown node."""
        name = data.draw(st.sampled_from(NODES))
        raw = self.reports[name] = data.draw(reports(name))
        _, metric = read_object(raw)
        self.scene.follow(self.scene.cluster.put_object("NodeMetric", metric))

    @rule(data=st.data())
    def drop_report(self, data):
        """Delete a report."""
        if not self.reports:
            return
        name = data.draw(st.sampled_from(sorted(self.reports)))
        _, metric = read_object(self.reports.pop(name))
        self.scene.follow(self.scene.cluster.drop_object("NodeMetric", metric))

    @rule(data=st.data(), assume=st.booleans())
    def place(self, data, assume):
        """Bind, change, move or assume a pod."""
        name = data.draw(st.sampled_from(["p0", "p1", "p2", "p3"]))
        where = data.draw(st.sampled_from(NODES))
        raw = data.draw(pods(name, where))
        cluster = self.scene.cluster
        if assume and name not in self.pods:
            bare = raw | {"spec": {**raw["spec"], "nodeName": ""}}
            self.scene.follow(cluster.assume(read_pod(bare), where))
        else:
            self.scene.follow(cluster.put_pod(read_pod(raw)))
        self.pods[name] = raw

    @rule(data=st.data())
    def remove(self, data):
        """Delete or forget a pod."""
        if not self.pods:
            return
        name = data.draw(st.sampled_from(sorted(self.pods)))
        cluster = self.scene.cluster
        uid = f"uid-{name}"
        change = cluster.forget(uid) if data.draw(st.booleans()) else cluster.drop_pod(uid)
        if cluster.pods.get(uid) is None:
            del self.pods[name]
        self.scene.follow(change)

    @invariant()
    def is_as_built_afresh(self):
        """The incremental state equals a recount."""
        plugin: Any = self.scene.plugin
        ledger = plugin.tracker
        fresh = type(ledger)(ledger.settings)
        fresh.rebuild(self.scene.cluster)
        assert fresh.columns() == ledger.columns()

    @rule(data=st.data())
    def decide(self, data):
        """Filter and score agree with the model."""
        raw = data.draw(pods("new"))
        model = Model(read(json.dumps(self.args)))
        got = look(self.scene, self.scene.cycle(read_pod(raw)))
        incoming = timed(raw)
        for name, manifest in self.known.items():
            existing = [timed(pod) for pod in self.pods.values() if pod["spec"]["nodeName"] == name]
            report = self.reports.get(name)
            seen = None if report is None else read(json.dumps(timed(report)))
            at = (manifest, seen, existing, incoming, NOW)
            assert model.filter(*at) == got.filter[name].message
            assert model.score(*at) == got.raw[name]


def timed(value):
    """Return a manifest with its times as seconds, for the model."""
    if isinstance(value, list):
        return [timed(item) for item in value]
    if not isinstance(value, dict):
        return value
    times = ("updateTime", "lastTransitionTime")
    return {k: parse_rfc3339(v) if k in times else timed(v) for k, v in value.items()}


TestAccounts = Accounts.TestCase
TestAccounts.settings = settings(stateful_step_count=25)


@settings(max_examples=(settings.default or settings()).max_examples * 3)
@given(
    args=ARGS,
    host=nodes("n0"),
    report=reports("n0"),
    existing=st.lists(st.integers(0, 3).flatmap(lambda i: pods(f"p{i}", "n0")), max_size=3),
    incoming=pods("new"),
)
def test_decisions_are_those_of_the_model(args, host, report, existing, incoming):
    """One node, one report, a few pods: filter and score agree with the slow model."""
    existing = list({pod["metadata"]["uid"]: pod for pod in existing}.values())
    got = evaluate(
        PLUGIN,
        args=args, nodes=[host], objects=[report], existing_pods=existing, pod=incoming, now=NOW,
    )  # fmt: skip
    model = Model(read(json.dumps(args)))
    seen = read(json.dumps(timed(report)))
    at = (host, seen, [timed(pod) for pod in existing], timed(incoming), NOW)

    assert model.filter(*at) == got.filter["n0"].message
    assert model.score(*at) == got.raw["n0"]


JUNK = st.one_of(
    st.text(max_size=12),
    st.integers().map(str),
    st.sampled_from(["1e400", "-5", "9" * 40, "0x10", "nan", "Infinity", "1Ki", "5m", "٣"]),
)
JSONISH = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | JUNK,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(JUNK, inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(
    texts=st.fixed_dictionaries(
        {},
        optional={
            "thresholds": JUNK | JSONISH.map(json.dumps),
            "raw": JUNK | JSONISH.map(json.dumps),
        },
    ),
    usage=st.dictionaries(st.sampled_from(["cpu", "memory", "gpu"]), JUNK, max_size=3),
    of_pod=st.dictionaries(
        st.sampled_from(
            [
                f"{DOMAIN}/load-estimated-scaling-factors",
                f"{DOMAIN}/load-estimated-seconds-after-pod-scheduled",
                f"{DOMAIN}/load-estimated-seconds-after-initialized",
                f"{DOMAIN}/reserve-pod",
            ]
        ),
        JUNK | JSONISH.map(json.dumps),
        max_size=4,
    ),
    time=JUNK,
    duration=JUNK,
)
def test_no_content_does_harm(texts, usage, of_pod, time, duration):
    """With any content of annotations and figures, there is an answer and scores are 0..100."""
    host = node("n")
    host["metadata"]["annotations"] = {
        f"{DOMAIN}/usage-thresholds": texts.get("thresholds", ""),
        "node.koordinator.sh/raw-allocatable": texts.get("raw", ""),
    }
    metric = {
        "apiVersion": "slo.koordinator.sh/v1alpha1",
        "kind": "NodeMetric",
        "metadata": {"name": "n"},
        "status": {
            "updateTime": time,
            "nodeMetric": {
                "nodeUsage": {"resources": usage},
                "aggregatedNodeUsages": [
                    {"duration": duration, "usage": {"p95": {"resources": usage}}}
                ],
            },
            "podsMetric": [{"namespace": "default", "name": "e", "podUsage": {"resources": usage}}],
        },
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "annotations": of_pod},
        "spec": {"containers": [{"name": "c"}]},
    }
    there = pod | {
        "metadata": {"name": "e", "namespace": "default", "annotations": of_pod},
        "spec": {"containers": [{"name": "c"}], "nodeName": "n"},
    }
    got = evaluate(
        PLUGIN,
        args={"allowCustomizeEstimation": True, "aggregated": {"scoreAggregationType": "p95"}},
        nodes=[host], objects=[metric], existing_pods=[there], pod=pod, now=NOW,
    )  # fmt: skip

    assert 0 <= got.raw["n"] <= 100
