"""defaultpreemption.json: victims, the chosen node, and messages.

A case that names single filter plugins or statuses of nodes is evaluated by the plugin itself,
inside an engine with just these plugins. All others are evaluated by the engine as a whole.
"""

from random import Random

import msgspec
import numpy as np
import pytest

from scheduler.config import load
from scheduler.engine.effects import Listed, Watched
from scheduler.engine.engine import Engine
from scheduler.framework.hypothetical.dryrun import Attempted
from scheduler.framework.hypothetical.rowpods import NONE_NOMINATED
from scheduler.framework.postfilter import FitFailure
from scheduler.framework.registry import Registry
from scheduler.framework.status import SUCCESS
from scheduler.intree import IN_TREE
from scheduler.objects.plain import read_node, read_object, read_pod

SCHEDULER = "default-scheduler"
NAME = "DefaultPreemption"
NOW = 1_800_000_000.0


def run_preemption(vector):
    """Run a case by its kind."""
    case = vector.case
    runs = {"preempt": _preempt, "postFilter": _post_filter, "eligible": _eligible}
    if case["op"] not in runs:
        pytest.fail(f"unknown operation {case['op']}")
    runs[case["op"]](case, case["expect"])


def _preempt(case, expect):
    if "candidates" in expect:
        _dry_run(case, expect)
        return
    assert set(expect) <= {"nominatedNode", "victims", "status", "message"}, "unknown expectation"
    decision = _decide(case)

    assert not decision.fits
    assert expect["nominatedNode"] == decision.nominated_node or not (
        expect["nominatedNode"] or decision.nominated_node
    )
    assert sorted(expect["victims"]) == sorted(_names(decision.victims))
    if "message" in expect:
        assert expect["message"] == decision.message
    if "status" in expect:
        assert decision.message.endswith(", ".join(expect["status"]["reasons"]))
        # The field is left alone, not cleared.
        assert decision.nominated_node is None


def _dry_run(case, expect):
    table = _Table(case)
    found = table.plugin.candidates(table.cycle, table.nodes, table.failure())
    nodes = table.nodes
    candidates = {
        nodes.name(int(block.pods.rows[place])): {
            "victims": sorted(_names(block.victims(place))),
            "numPDBViolations": int(block.violations[place]),
        }
        for block in found.blocks
        for place in block.places.tolist()
    }
    wanted = {
        name: one | {"victims": sorted(one["victims"])}
        for name, one in expect["candidates"].items()
    }

    assert wanted == candidates
    if "walk" in case:
        assert case["walk"]["numCandidates"] == table.plugin.args.wanted(nodes.count)
    chosen = table.plugin.post_filter(table.cycle, nodes, table.failure()).nominated_node
    assert chosen in (expect["chosenAnyOf"] or [""])


def _post_filter(case, expect):
    table = _Table(case)
    potential = [name for name, code in case["nodeStatuses"].items() if code == "Unschedulable"]
    got = table.plugin.post_filter(table.cycle, table.nodes, table.failure(potential))

    assert expect["nominatedNode"] == got.nominated_node
    assert expect["status"]["code"] == got.status.code.value
    assert expect["status"].get("reasons", []) == list(got.status.reasons)
    assert ", ".join(got.status.reasons) == got.text


def _eligible(case, expect):
    table = _Table(case)
    nominated = case["pod"].get("status", {}).get("nominatedNodeName")
    hopeless = case["nominatedNodeStatus"] == "UnschedulableAndUnresolvable"
    failure = table.failure([nominated] if nominated and not hopeless else [])

    message = table.plugin.refusal(table.cycle.pod, table.nodes, failure)
    assert (expect["eligible"], expect["message"]) == (not message, message)


class _Table:
    """An attempt for the case's pod, with its pre-filters run."""

    def __init__(self, case):
        self.engine = _engine(case)
        attempt = self.engine.attempt(_pod(case), NOW)
        self.runner, self.nodes, self.states = attempt.runner, attempt.nodes, attempt.states
        offset = case.get("walk", {}).get("offset", 0)
        self.cycle = msgspec.structs.replace(attempt.cycle, random=_From(offset))
        self.runner.pre_filter(self.cycle, self.nodes, self.states)
        self.plugin = self.runner.profile.plugins[NAME]

    def failure(self, potential=None):
        """Return the failure of filtering with these nodes potential, by default all of them."""
        nodes = self.nodes
        rows = nodes.exists if potential is None else nodes.rows_named(potential)
        what_if = Attempted(self.runner, self.cycle, nodes, self.states)
        return FitFailure(
            rows, (), SUCCESS, what_if, NONE_NOMINATED, lambda rows: int(np.min(rows))
        )


class _From(Random):
    """A random source that starts the walk at a given node."""

    def __init__(self, offset):
        super().__init__(0)
        self.offset = offset

    def randrange(self, *_):
        """Return the offset."""
        return self.offset


def _decide(case):
    """Return the decision of an engine on the case's pod."""
    engine = _engine(case)
    decisions = []
    engine.observation.on_decision = lambda _queued, decision: decisions.append(decision)
    engine.handle(Watched("Pod", "ADDED", _pod(case)), NOW)
    engine.run(NOW, 1)
    return decisions[0]


def _engine(case):
    """Return an engine with the case's plugins that has seen nodes, pods and budgets."""
    registry = Registry(IN_TREE)
    engine = Engine(load(_configuration(case), file="case", registry=registry).profiles, registry)
    nodes = sorted((read_node(raw) for raw in case["nodes"]), key=lambda node: node.key)
    engine.handle(Listed("Node", tuple(nodes)), NOW)
    engine.handle(Listed("Pod", tuple(map(read_pod, case["existingPods"]))), NOW)
    budgets = tuple(read_object(raw)[1] for raw in case.get("pdbs", ()))
    engine.handle(Listed("PodDisruptionBudget", budgets), NOW)
    return engine


def _pod(case):
    """Return the case's pod; the files leave out the defaults of the API server."""
    return read_pod(case["pod"])


def _configuration(case):
    filters = case.get("filterPlugins", ["NodeResourcesFit"])
    plugins = {}
    if not filters[0].startswith("("):
        enabled = ["PrioritySort", *filters, NAME, "DefaultBinder"]
        plugins = {
            "multiPoint": {
                "enabled": [{"name": name} for name in enabled],
                "disabled": [{"name": "*"}],
            }
        }
    return msgspec.json.encode(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {
                    "schedulerName": SCHEDULER,
                    "plugins": plugins,
                    "pluginConfig": [{"name": NAME, "args": case.get("args", {})}],
                }
            ],
        }
    ).decode()


def _names(victims):
    return [placed.pod.metadata.name for placed in victims]
