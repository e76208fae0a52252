"""Slow preemption: one node and one pod at a time, each question on a cluster made anew.

It uses no code of the plugin and no hypothetical questions: the plain filters judge the pod on a
cluster that has exactly the remaining pods.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from random import Random
from typing import Any, NamedTuple

import msgspec

from scheduler.engine.handle import EngineHandle, Shared
from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.profile import ListedPlugin, ProfileSpec, build_profile
from scheduler.framework.registry import Registry
from scheduler.framework.running.answers import States
from scheduler.framework.running.runner import Runner
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod, PodStatus
from scheduler.objects.policy import PodDisruptionBudget
from scheduler.plugins.affinity import InterPodAffinity
from scheduler.plugins.nodeports import NodePorts
from scheduler.plugins.noderesourcesfit import NodeResourcesFit
from scheduler.plugins.preemption import DefaultPreemption, DefaultPreemptionArgs
from scheduler.plugins.spread import PodTopologySpread
from scheduler.state.cluster import Cluster

FILTERS = (NodePorts, NodeResourcesFit, PodTopologySpread, InterPodAffinity)
NO_VICTIMS = "No preemption victims found for incoming pod"


class Situation(NamedTuple):
    """The whole cluster: nodes, pods on them, budgets, nominated pods with their nodes, the
    preemptor.
    """

    nodes: Sequence[Node]
    pods: Sequence[Pod]
    budgets: Sequence[PodDisruptionBudget]
    nominated: Sequence[tuple[Pod, str]]
    preemptor: Pod
    skipped: frozenset[str] = frozenset()


class Table:
    """A cluster with these nodes and pods, and the filters on it."""

    def __init__(
        self,
        situation: Situation,
        pods: Sequence[Pod],
        skipped: frozenset[str] = frozenset(),
        *,
        elsewhere: bool = False,
    ) -> None:
        self.cluster = Cluster()
        self.preempting: dict[str, None] = {}
        handle = EngineHandle(self.cluster, {}, shared=Shared(preempting=self.preempting))
        classes = (*FILTERS, DefaultPreemption)
        points = {
            point: tuple(ListedPlugin(cls.name) for cls in served)
            for point, served in {
                "preFilter": FILTERS,
                "filter": FILTERS,
                "postFilter": (DefaultPreemption,),
            }.items()
        }
        args = DefaultPreemptionArgs(prefer_victims_that_fit_elsewhere=elsewhere)
        spec = ProfileSpec("trellis", points, {DefaultPreemption.name: args})
        self.runner = Runner(build_profile(spec, Registry(classes), handle))
        for node in situation.nodes:
            self.cluster.put_node(node)
        for pod in pods:
            self.cluster.put_pod(pod)
        for budget in situation.budgets:
            self.cluster.put_object("PodDisruptionBudget", budget)
        for tracker in handle.trackers.values():
            tracker.rebuild(self.cluster)
        self.nodes = Nodes(self.cluster.table, self.cluster.pods)
        pod = situation.preemptor
        self.cycle = Cycle(pod, self.cluster.shapes.of(pod), 0.0, Random(0))
        self.states = States()
        self.status = self.runner.pre_filter(self.cycle, self.nodes, self.states).status
        # kube-scheduler: a plugin skipped for the pod now is skipped in the dry run.
        self.states.skipped |= skipped

    @property
    def plugin(self) -> Any:
        """Return the preemption plugin."""
        return self.runner.profile.plugins[DefaultPreemption.name]

    def refusal(self, name: str) -> tuple[str, ...]:
        """Return why the preemptor does not fit a node; nothing if it does."""
        assert self.status.is_success
        _, rejections = self.runner.filter(self.cycle, self.nodes, self.states, self.nodes.exists)
        row = self.cluster.table.rows[name]
        return next((r.rejected.texts(row) for r in rejections if r.rows[row]), ())


class Candidate(NamedTuple):
    """The pods that have to leave a node, and how many of them violate a budget."""

    victims: tuple[Pod, ...]
    violations: int


def slow_candidates(
    situation: Situation,
) -> tuple[dict[str, Candidate], dict[str, tuple[str, ...]]]:
    """Return the candidates by node, and the reasons of the other nodes."""
    candidates, reasons = {}, {}
    situation = situation._replace(
        skipped=frozenset(Table(situation, situation.pods).states.skipped)
    )
    for node in situation.nodes:
        found = _on_node(situation, node.metadata.name)
        if isinstance(found, Candidate):
            candidates[node.metadata.name] = found
        else:
            reasons[node.metadata.name] = found
    return candidates, reasons


def _on_node(situation: Situation, name: str) -> Candidate | tuple[str, ...]:
    least = situation.preemptor.priority
    placed_pods = [pod for pod in situation.pods if pod.spec.node_name == name]
    lower = [pod for pod in placed_pods if pod.priority < least]
    if not lower:
        return (NO_VICTIMS,)
    gone = list(lower)
    refusal = _refusal(situation, name, gone)
    if refusal:
        return refusal
    ranks = _by_importance(lower)
    violating = _violating(ranks, situation.budgets)
    for pod in [p for p in ranks if p in violating] + [p for p in ranks if p not in violating]:
        gone.remove(pod)
        if _refusal(situation, name, gone):
            gone.append(pod)
    if not gone:
        return ()
    return Candidate(tuple(p for p in ranks if p in gone), sum(p in violating for p in gone))


def _refusal(situation: Situation, name: str, gone: Sequence[Pod]) -> tuple[str, ...]:
    """Return why the preemptor does not fit without `gone`: with nominated pods, then without."""
    least = situation.preemptor.priority
    left = [pod for pod in situation.pods if pod not in gone]
    with_nomination = [
        msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=name))
        for pod, node in situation.nominated
        if node == name and pod.priority >= least
    ]
    if with_nomination:
        refusal = Table(situation, [*left, *with_nomination], situation.skipped).refusal(name)
        if refusal:
            return refusal
    return Table(situation, left, situation.skipped).refusal(name)


def _by_importance(pods: Sequence[Pod]) -> list[Pod]:
    started = [pod for pod in pods if pod.status.start_time]
    waiting = [pod for pod in pods if not pod.status.start_time]
    started.sort(key=_start)
    # Of those that have not started, the youngest is the most important.
    ranks = started + waiting[::-1]
    ranks.sort(key=lambda pod: -pod.priority)
    return ranks


def _start(pod: Pod) -> datetime:
    return datetime.fromisoformat(pod.status.start_time or "")


def _violating(ranks: Sequence[Pod], budgets: Sequence[PodDisruptionBudget]) -> list[Pod]:
    left = {budget.metadata.name: budget.status.disruptions_allowed for budget in budgets}
    found = []
    for pod in ranks:
        violates = False
        for budget in budgets:
            pairs = budget.spec.selector.match_labels if budget.spec.selector else {}
            covers = pairs and all(pod.metadata.labels.get(k) == v for k, v in pairs.items())
            if not covers or pod.metadata.name in budget.status.disrupted_pods:
                continue
            left[budget.metadata.name] -= 1
            violates = violates or left[budget.metadata.name] < 0
        if violates:
            found.append(pod)
    return found


def slow_others(situation: Situation, victim: Pod) -> set[str]:
    """Return the other nodes that accept a pod like the victim, with nominated pods and without."""
    again = msgspec.structs.replace(
        victim,
        spec=msgspec.structs.replace(victim.spec, node_name=""),
        status=PodStatus(),
    )
    least = situation.preemptor.priority
    with_nomination = [
        msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))
        for pod, node in situation.nominated
        if pod.priority >= least
    ]
    found = set()
    for node in situation.nodes:
        name = node.metadata.name
        asked = situation._replace(preemptor=again)
        first = Table(asked, situation.pods)
        here = [*situation.pods, *(p for p in with_nomination if p.spec.node_name == name)]
        tables = first, Table(asked, here, frozenset(first.states.skipped))
        if name != victim.spec.node_name and not any(table.refusal(name) for table in tables):
            found.add(name)
    return found


def slow_best(
    candidates: dict[str, Candidate], stranded: Callable[[Pod], bool] | None = None
) -> set[str]:
    """Return the nodes that may be chosen, by the five criteria in turn.

    With `stranded`, the number of victims for which it is true comes after their number.
    """

    def harm(candidate: Candidate) -> tuple[Any, ...]:
        victims = candidate.victims
        highest = max(pod.priority for pod in victims)
        starts = [_start(p) for p in victims if p.priority == highest and p.status.start_time]
        # A pod without start counts as later than any.
        latest = -min(starts).timestamp() if starts else float("-inf")
        weight = sum(pod.priority + 2**31 for pod in victims)
        alone = sum(map(stranded, victims)) if stranded else 0
        return candidate.violations, highest, weight, len(victims), alone, latest

    least = min(map(harm, candidates.values()))
    return {name for name, candidate in candidates.items() if harm(candidate) == least}
