"""Our side of a decision: one attempt of one pod on exactly what the API server held.

Takes the engine, as `explain` does, because only there can an attempt be had alone; and asks the door
that users have, `simulate --batch`, where both must agree.
"""

import json
from collections import defaultdict
from contextlib import suppress
from random import Random
from typing import Any

import msgspec
import numpy as np

from scheduler.base.errors import ObjectError, PluginError
from scheduler.config import load
from scheduler.engine.attempt.attempt import decide
from scheduler.engine.attempt.choose import Ties
from scheduler.engine.attempt.cycle import Attempt
from scheduler.engine.decision import Decision
from scheduler.engine.effects import Listed
from scheduler.engine.engine import Engine
from scheduler.framework.registry import Registry
from scheduler.objects.plain import read_object, read_pod
from scheduler.plugins.intree import IN_TREE
from scheduler.plugins.preemption import DefaultPreemption
from scheduler.whatif.batch import Batch
from scheduler.whatif.setups import Setups
from scheduler.whatif.stage import Options
from tests.differential.case import Outcome
from tests.differential.kinds import Manifest, key_of

NOW = 1_800_000_000.0


class Watching(DefaultPreemption):
    """Preemption that remembers what its dry run found."""

    name = DefaultPreemption.name
    remembers = False  # a choice from memory would not pass by `candidates`
    found: Any = None

    def post_filter(self, cycle, nodes, failure):
        """Answer as ever; search apart, since the answer may come from what is remembered."""
        if not self.refusal(cycle.pod, nodes, failure):
            with suppress(PluginError):
                self.found = self.candidates(cycle, nodes, failure)
        return super().post_filter(cycle, nodes, failure)


class Chooser(Random):
    """Takes the node that the peer took wherever it is one of the best, and keeps the best ones."""

    def __init__(self, attempt: Attempt, wanted: str) -> None:
        super().__init__(0)
        self._nodes = attempt.nodes
        self._wanted = attempt.nodes.row(wanted) if wanted else None
        self.best: list[str] = []

    def choice(self, rows):
        """Choose among rows."""
        self.best = sorted(self._nodes.name(row) for row in rows)
        return self._wanted if self._wanted in rows else rows[0]


class Ours:
    """Decides as our scheduler does under one configuration file."""

    def __init__(self, configuration: Manifest) -> None:
        self._registry = Registry(
            [Watching if cls is DefaultPreemption else cls for cls in IN_TREE]
        )
        self._text = json.dumps(configuration)
        self._loaded = load(self._text, file="differential", registry=self._registry)
        self._batch = Batch(Setups(Registry(IN_TREE)), Options(), lambda _name: "")

    def decide(self, objects: list[Manifest], pod: Manifest, peer: Outcome) -> Outcome:
        """Return what we make of `pod` beside `objects`; of equal nodes the peer's choice."""
        engine = Engine(self._loaded.profiles, self._registry)
        listed: dict[str, list[Any]] = defaultdict(list)
        for raw in objects:
            kind, obj = read_object(raw)
            listed[kind.kind].append(obj)
        for kind_name, found in listed.items():
            engine.handle(Listed(kind_name, tuple(found)), NOW)
        ready = read_pod(pod)
        if ready.spec.scheduling_gates:
            return Outcome("Gated")
        attempt = engine.attempt(ready, NOW)
        chooser = Chooser(attempt, peer.node or peer.nominated or "")
        attempt.cycle = msgspec.structs.replace(attempt.cycle, random=chooser)
        attempt.ties = Ties.SEED
        try:
            return _outcome(decide(attempt), attempt, chooser)
        except (PluginError, ObjectError) as error:
            return Outcome("Error", message=str(error))

    def simulated(self, objects: list[Manifest], pod: Manifest) -> Any:
        """Return the pod as `simulate --batch` reports it with details."""
        line = {
            "id": "x",
            "config": json.loads(self._text),
            "objects": objects,
            "pending": [pod],
            "details": True,
        }
        answer = json.loads(self._batch.answer(json.dumps(line).encode()))
        if "error" in answer:
            return answer
        return next(
            found
            for found in answer["simulation"]["pods"]
            if f"{found['namespace']}/{found['name']}" == key_of(pod)
        )


def _outcome(decision: Decision, attempt: Attempt, chooser: Chooser) -> Outcome:
    nodes = attempt.nodes
    if decision.fits:
        assert decision.feasible is not None
        rows = np.flatnonzero(decision.feasible).tolist()
        return Outcome(
            "Scheduled",
            node=decision.node,
            best=chooser.best or [decision.node],
            feasible=len(rows),
            scores=_scores(decision, nodes, rows),
            totals=_totals(decision, nodes, rows),
        )
    plugin = attempt.runner.profile.plugins.get(DefaultPreemption.name)
    return Outcome(
        "Unschedulable",
        best=chooser.best,
        message=decision.message,
        plugins=sorted(decision.rejected_by),
        nominated=_nominated(decision, attempt),
        candidates=_candidates(plugin.found if isinstance(plugin, Watching) else None, nodes),
        victims=sorted(placed.pod.key for placed in decision.victims),
    )


def _nominated(decision: Decision, attempt: Attempt) -> str:
    """Return where the pod is nominated afterwards; None in a decision leaves things as they are."""
    if decision.nominated_node is not None:
        return decision.nominated_node
    return attempt.cycle.pod.status.nominated_node_name


def _scores(decision: Decision, nodes: Any, rows: list[int]) -> dict[str, dict[str, int]]:
    if not decision.scores:
        return {}
    return {
        nodes.name(row): {
            scored.plugin: int(scored.normalized[row]) * scored.weight for scored in decision.scores
        }
        for row in rows
    }


def _totals(decision: Decision, nodes: Any, rows: list[int]) -> dict[str, int]:
    if decision.total is None:
        return {}
    return {nodes.name(row): int(decision.total[row]) for row in rows}


def _candidates(found: Any, nodes: Any) -> dict[str, list[str]]:
    if found is None:
        return {}
    return {
        nodes.name(int(block.pods.rows[place])): sorted(
            placed.pod.key for placed in block.victims(place)
        )
        for block in found.blocks
        for place in block.places.tolist()
    }
