"""Our side of a decision: one attempt of one pod on exactly the objects of the API server.

Uses the engine, as `explain` does, because a single attempt is available only there; and compares
it with `simulate --batch`, which must agree. `simulate` also reports the errors of PreBind, which
an attempt does not reach.
"""

import copy
import json
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from random import Random
from typing import Any

import msgspec
import numpy as np

from scheduler.base.errors import ObjectError, PluginError
from scheduler.base.release import DEFAULT, read_release
from scheduler.config import load
from scheduler.config.featuregates.gates import gates_in_effect
from scheduler.engine.attempt.attempt import decide
from scheduler.engine.attempt.cycle import Attempt, Ties
from scheduler.engine.decision import Decision
from scheduler.engine.effects import Listed
from scheduler.engine.engine import Engine
from scheduler.engine.settings import EngineSettings
from scheduler.framework.registry import Registry
from scheduler.framework.status import Status
from scheduler.intree import IN_TREE
from scheduler.objects.plain import read_object, read_pod
from scheduler.plugins.dynamicresources.plugin import DynamicResources
from scheduler.plugins.preemption import DefaultPreemption
from scheduler.simulate.batch import Batch
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions
from tests.differential.case import Outcome
from tests.differential.claimcontroller import granted
from tests.differential.compare import plain
from tests.differential.kinds import Manifest, key_of

NOW = 1_800_000_000.0
PRE_BIND = "running PreBind plugin"


class Watching(DefaultPreemption):
    """Preemption that records the findings of its dry run."""

    name = DefaultPreemption.name
    remembers = False  # a choice from memory would not pass by `candidates`
    found: Any = None

    def post_filter(self, cycle, nodes, failure):
        """Return the usual answer; search separately, since the answer may come from the cache."""
        if not self.refusal(cycle.pod, nodes, failure):
            with suppress(PluginError):
                self.found = self.candidates(cycle, nodes, failure)
        return super().post_filter(cycle, nodes, failure)

    def tie_break(self, nodes, failure):
        """Return a tie-break by chance, as kube-scheduler's: every tied node is one of the best.

        The usual one prefers victims that are being evicted already, so the peer's choice would
        differ by chance. `simulate` uses it, and `through_simulate` compares its choice.
        """
        return lambda rows, _victims_of: failure.break_tie(rows)


class Chooser(Random):
    """Chooses the peer's node if it is one of the best, and records the best ones."""

    def __init__(self, attempt: Attempt, wanted: str) -> None:
        super().__init__(0)
        self._nodes = attempt.nodes
        self._wanted = attempt.nodes.row(wanted) if wanted else None
        self.best: list[str] = []

    def choice(self, rows):
        """Return the row of the peer's node if it is among the best `rows`, else the first."""
        self.best = sorted(self._nodes.name(row) for row in rows)
        return self._wanted if self._wanted in rows else rows[0]


class Ours:
    """Decides as our scheduler does under one configuration file, on one release."""

    def __init__(
        self, configuration: Manifest, release: str = "", gates: Mapping[str, bool] | None = None
    ) -> None:
        self._release = read_release(release) if release else DEFAULT
        in_effect = gates_in_effect(gates or {}, self._release)
        self._settings = EngineSettings(feature_gates=in_effect, release=self._release)
        self._registry = Registry(
            [Watching if cls is DefaultPreemption else cls for cls in IN_TREE]
        )
        own = {
            "apiVersion": "trellis.dev/v1alpha1",
            "kind": "TrellisConfiguration",
            "featureGates": dict(gates or {}),
        }
        self._text = f"{json.dumps(configuration)}\n---\n{json.dumps(own)}\n"
        self._loaded = load(self._text, file="differential", registry=self._registry)
        self._batch = Batch(Setups(Registry(IN_TREE)), AnswerOptions(), lambda _name: "")

    def decide(self, objects: list[Manifest], pod: Manifest, peer: Outcome) -> Outcome:
        """Return our outcome for `pod` beside `objects`; of equal nodes the peer's choice."""
        engine = Engine(self._loaded.profiles, self._registry, settings=self._settings)
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
            outcome = _outcome(decide(attempt), attempt, chooser)
        except (PluginError, ObjectError) as error:
            return Outcome("Error", message=self._as_peer_error(engine, pod, str(error), peer))
        if outcome.result == "Scheduled" and PRE_BIND in peer.message:
            return self._binding_error(objects, pod, peer, outcome.best) or outcome
        return outcome

    def _binding_error(
        self, objects: list[Manifest], pod: Manifest, peer: Outcome, best: list[str]
    ) -> Outcome | None:
        """Return the peer's error if `simulate` binds the pod to one of `best` with it, else None.

        An attempt ends before PreBind; `simulate` carries the binding out.
        """
        for name in best:
            message = self.simulated(objects, _pinned(pod, name)).get("message") or ""
            if plain(message) == plain(peer.message):
                return Outcome("Error", message=message)
        return None

    def _as_peer_error(self, engine: Engine, pod: Manifest, reported: str, peer: Outcome) -> str:
        """Return the peer's error if one of our nodes yields it as well, else `reported`.

        The node whose error ends an attempt depends on the order of nodes; the peer evaluates many
        at once.
        """
        if peer.result != "Error" or plain(reported) == plain(peer.message):
            return reported
        for name in engine.cluster.table.rows:
            attempt = engine.attempt(read_pod(_pinned(pod, name)), NOW)
            try:
                decide(attempt)
            except (PluginError, ObjectError) as error:
                if plain(str(error)) == plain(peer.message):
                    return str(error)
        return reported

    def simulated(self, objects: list[Manifest], pod: Manifest) -> Any:
        """Return the pod as `simulate --batch` reports it with details."""
        line = {
            "id": "x",
            "config": self._text,
            "objects": objects,
            "pending": [pod],
            "details": True,
            "kubernetes": str(self._release),
        }
        answer = json.loads(self._batch.answer(json.dumps(line).encode()))
        if "error" in answer:
            return answer
        pods = answer["simulation"]["pods"]
        named = {f"{one['namespace']}/{one['name']}": one for one in pods}
        return named.get(key_of(pod), {"error": f"no result; there are {sorted(named)}"})


def _pinned(pod: Manifest, node: str) -> Manifest:
    """Return a copy of a pod that may go to one node only."""
    raw: Manifest = copy.deepcopy(pod)
    affinity = raw["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.get("nodeSelectorTerms", ({},))
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    required["nodeSelectorTerms"] = [
        {**term, "matchFields": [*term.get("matchFields", ()), here]} for term in terms
    ]
    return raw


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
            claims=_claims(decision, attempt),
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
    """Return where the pod is nominated afterwards.

    None in a decision leaves the nomination unchanged.
    """
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


def _claims(decision: Decision, attempt: Attempt) -> list[Manifest]:
    """Return the allocations at reserve of the pod's claims that had none before."""
    plugin = attempt.runner.profile.plugins.get(DynamicResources.name)
    devices = attempt.states.by_plugin.get(DynamicResources.name)
    if plugin is None or devices is None or isinstance(devices, Status):
        return []
    assert isinstance(plugin, DynamicResources)
    plugin.reserve(attempt.cycle, decision.node, devices)
    return [granted(json.loads(msgspec.json.encode(one.allocation))) for one in devices.allocated]


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
