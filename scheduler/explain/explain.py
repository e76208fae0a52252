"""`explain`: one attempt of one pod on the snapshot, with every plugin's result.

A pod that is bound is evaluated as if it were not: why it is on its node, by the current cluster.
Each filter also runs alone, so that a node shows all reasons against it and not only the first.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import asdict, replace

from scheduler.base.errors import MissingError, PluginError, TrellisError
from scheduler.base.reasons import SCHEDULER_ERROR, UNSCHEDULABLE
from scheduler.base.text import closest, did_you_mean
from scheduler.engine.attempt.attempt import decide
from scheduler.engine.attempt.cycle import Attempt, Ties
from scheduler.engine.decision import Decision
from scheduler.engine.effects import Watched
from scheduler.engine.engine import Engine
from scheduler.engine.queue.pod import Where
from scheduler.explain.moving import live_moves
from scheduler.explain.why.grouped import facts_of, left_out, why_with_group
from scheduler.explain.why.pending import why_pending
from scheduler.explain.why.placed import DECIDES, queue_place, why_placed
from scheduler.explain.why.records import SuggestedChange, Suggestion, UnmetRequirement, Why
from scheduler.framework.groups import GroupReport, title
from scheduler.framework.running.runner import Runner
from scheduler.framework.status import Code, Status
from scheduler.groups.plugin import GroupFacts
from scheduler.objects.kinds import MOVE_PLAN
from scheduler.objects.pod import Pod
from scheduler.plugins.network import Tie
from scheduler.simulate.cluster.extenders import skipped_extenders
from scheduler.simulate.costs import network_bill
from scheduler.simulate.gates import gate_text
from scheduler.simulate.records import API_VERSION, PodName, Result
from scheduler.simulate.simulate import SimulationRun
from scheduler.simulate.stage import AnswerOptions, Setup, StagedEngine, staged
from scheduler.simulate.verdicts import NodeVerdict, verdicts
from scheduler.snapshot.snapshot import Snapshot


class PluginVerdict(msgspec.Struct, frozen=True):
    """One filter's verdict on a node, independent of the others; `figures` are details.

    `code` is empty for a plugin that only scores.
    """

    code: str
    reasons: tuple[str, ...] = ()
    figures: tuple[str, ...] = ()


class NodeExplanation(NodeVerdict, frozen=True, rename="camel"):
    """A node: the verdict, every filter's own verdict, and why it was not chosen."""

    plugins: dict[str, PluginVerdict]
    why: str


class Explanation(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Where a pod would go now (`node`) and where it is (`current_node`), node by node.

    `moves` are what live MovePlans do for it. `ties` are its application's dependencies, priced
    from the first of the two nodes that exists; their sum is `network_cost`, None for a pod without
    dependencies. A member of a group is placed by the plan for the whole `group`; the nodes have
    the verdicts for one such pod alone. `why` is the answer in a sentence with its reasons, None
    for a past decision.
    """

    api_version: str = API_VERSION
    kind: str = "Explanation"
    namespace: str
    name: str
    profile: str
    result: Result
    node: str | None = None
    current_node: str | None = None
    reason: str = ""
    message: str = ""
    nominated_node: str | None = None
    victims: tuple[PodName, ...] = ()
    moves: tuple[str, ...] = ()
    network_cost: int | None = None
    ties: tuple[Tie, ...] = ()
    group: GroupReport | None = None
    nodes: tuple[NodeExplanation, ...] = ()
    why: Why | None = None

    @property
    def fits(self) -> bool:
        """Return whether there is a node for the pod."""
        return self.node is not None


class ExplainAnswer(msgspec.Struct, frozen=True):
    """An explanation, and its notices."""

    explanation: Explanation
    notices: tuple[str, ...] = ()


def explain(
    snapshot: Snapshot,
    setup: Setup,
    pod: str,
    options: AnswerOptions | None = None,
    *,
    node: str = "",
) -> ExplainAnswer:
    """Explain the pod `namespace/name`, all nodes or just `node`.

    MissingError if one is unknown.
    """
    wanted = options or AnswerOptions()
    found = snapshot.find(pod)
    if found is None:
        raise MissingError(_missing(snapshot, pod), where=pod)
    if node and node not in {one.key for one in snapshot.nodes}:
        hint = did_you_mean(node, (one.key for one in snapshot.nodes))
        raise MissingError(f"no such node{hint}", where=node)
    stage = staged(snapshot, setup, wanted)
    engine = stage.engine
    # The version of the simulated cluster: with the claims that are created for it.
    found = next((one for one in stage.pending if one.metadata.uid == found.metadata.uid), found)
    waiting = _unplaced(found, engine, stage.now)
    served, notices = _served(waiting, engine, is_given=found.metadata.uid in snapshot.given)
    notices += skipped_extenders(setup.loaded.scheduler.extenders, (found,))
    explanation = _explained(found, served, stage, wanted.ties)
    meant = "" if served is waiting else closest(found.spec.scheduler_name, engine.profiles)
    if meant and not found.spec.node_name:
        return ExplainAnswer(_misspelt(explanation, found, meant))
    if key := engine.group_of(served):
        explanation = _with_group(explanation, key, snapshot, setup, wanted)
    plans = [one for kind, one in snapshot.objects if kind == MOVE_PLAN.kind]
    explanation = replace(explanation, moves=live_moves(found, key, plans, stage.now))
    explanation = _priced(explanation, served, engine)
    if explanation.why is not None:
        place = queue_place(engine, served, stage.now)
        explanation = replace(explanation, why=replace(explanation.why, queue=place))
    if node:
        one = tuple(each for each in explanation.nodes if each.name == node)
        explanation = replace(explanation, nodes=one)
    return ExplainAnswer(explanation, notices)


def _missing(snapshot: Snapshot, key: str) -> str:
    """Return why there is no decision about a pod that is neither bound nor pending."""
    for pod in snapshot.ended:
        if pod.key == key:
            where = f"ran on node {pod.spec.node_name}" if pod.spec.node_name else "was never bound"
            return (
                f"the pod has ended ({pod.status.phase}); it {where}, and uses no capacity any more"
            )
    keys = [one.key for one in (*snapshot.bound, *snapshot.unbound)]
    return f"no such pod is bound or waiting{did_you_mean(key, keys)}"


def _unplaced(pod: Pod, engine: Engine, now: float) -> Pod:
    """Remove a bound pod from its node, as if it were pending."""
    if not pod.spec.node_name:
        return pod
    engine.handle(Watched("Pod", "DELETED", pod), now)
    return replace(pod, spec=replace(pod.spec, node_name=""))


def _served(pod: Pod, engine: Engine, *, is_given: bool) -> tuple[Pod, tuple[str, ...]]:
    """Return the pod with a schedulerName of our profiles."""
    name = pod.spec.scheduler_name
    if name in engine.profiles:
        return pod, ()
    first = closest(name, engine.profiles) or next(iter(engine.profiles))
    notice = f'no profile is called "{name}": explained as profile {first} would place the pod'
    served = replace(pod, spec=replace(pod.spec, scheduler_name=first))
    return served, () if is_given else (notice,)


def _misspelt(would: Explanation, pod: Pod, meant: str) -> Explanation:
    """Return the explanation that no profile schedules a pod, from `would`, the explanation under
    the profile `meant`.
    """
    name = pod.spec.scheduler_name
    text = f"no profile is called {name}; did you mean {meant}?"
    suggestions: tuple[Suggestion, ...] = ()
    if would.node is not None:
        change = SuggestedChange(f"Pod {pod.key}", "spec.schedulerName", "set", meant)
        words = f"fits {would.node} with the schedulerName {meant}"
        suggestions = (Suggestion(would.node, (change,), words),)
    unmet = UnmetRequirement("spec.schedulerName", f"is of the scheduler {name}")
    why = Why(sentence=f"{pod.key} waits: {text}", conflict=(unmet,), suggestions=suggestions)
    return replace(
        would,
        profile=name,
        result=Result.UNSCHEDULABLE,
        node=None,
        message=text,
        victims=(),
        nodes=(),
        why=why,
    )


def _explained(found: Pod, pod: Pod, stage: StagedEngine, ties: Ties) -> Explanation:
    engine, now = stage.engine, stage.now
    meta = pod.metadata
    frame = Explanation(
        namespace=meta.namespace,
        name=meta.name,
        profile=pod.spec.scheduler_name,
        result=Result.ERROR,
        current_node=found.spec.node_name or None,
        nominated_node=pod.status.nominated_node_name or None,
    )
    queued = engine.view.queued(meta.uid)
    if queued is not None and queued.where is Where.GATED:
        text = gate_text(engine, queued, (*stage.others, *stage.pending))
        why = Why(sentence=f"{pod.key} waits: {text}".replace("waits: waiting for", "waits for"))
        return replace(frame, result=Result.GATED, reason=queued.gated_by, message=text, why=why)
    try:
        attempt = engine.attempt(pod, now)
        decision = decide(attempt)
    except TrellisError as error:
        why = Why(sentence=f"{pod.key} cannot be judged: {error}")
        return replace(frame, reason=SCHEDULER_ERROR, message=str(error), why=why)
    nodes = _nodes(decision, attempt, ties)
    if decision.fits:
        why = why_placed(pod.key, decision.node, frame.current_node, nodes, ties)
        return replace(frame, result=Result.SCHEDULED, node=decision.node, nodes=nodes, why=why)
    is_error = decision.status.code is Code.ERROR
    nominated = decision.nominated_node
    return replace(
        frame,
        result=Result.ERROR if is_error else Result.UNSCHEDULABLE,
        reason=SCHEDULER_ERROR if is_error else UNSCHEDULABLE,
        message=decision.message,
        nominated_node=frame.nominated_node if nominated is None else nominated or None,
        victims=tuple(
            PodName(one.pod.metadata.namespace, one.pod.metadata.name) for one in decision.victims
        ),
        nodes=nodes,
        why=why_pending(engine, pod, decision, now, frame.current_node),
    )


def _with_group(
    explanation: Explanation, key: str, snapshot: Snapshot, setup: Setup, options: AnswerOptions
) -> Explanation:
    """Plan the whole group, after all pods before it in the queue, and return the result."""
    run = SimulationRun(staged(snapshot, setup, options))
    run.to_the_end()
    done = run.simulation()
    reports = {f"{one.namespace}/{one.name}": one for one in done.groups}
    explanation = replace(explanation, group=reports.get(title(key)))
    own = (explanation.namespace, explanation.name)
    found = next((pod for pod in done.pods if (pod.namespace, pod.name) == own), None)
    here = explanation.current_node
    if found is None and here is None:  # its schedulerName is that of another scheduler
        text = (
            f"{own[0]}/{own[1]} is no member of the group {title(key)} here: no profile has "
            "its schedulerName"
        )
        return replace(explanation, why=Why(sentence=text))
    if found is None:  # it is bound already, by its group's plan
        facts = facts_of(run, explanation.profile, key)
        nodes = _of_plan(explanation.nodes, here, facts, snapshot)
        why = Why(sentence=f"{own[0]}/{own[1]} is on {here}, with the group {title(key)}")
        return replace(explanation, result=Result.SCHEDULED, node=here, nodes=nodes, why=why)
    facts = facts_of(run, explanation.profile, key)
    nodes = _of_plan(explanation.nodes, found.node, facts, snapshot)
    why = why_with_group(found, explanation.group, key, run)
    return replace(
        explanation,
        why=why,
        result=found.result,
        node=found.node,
        reason=found.reason,
        message=found.message,
        victims=found.victims,
        nodes=nodes,
    )


def _of_plan(
    nodes: tuple[NodeExplanation, ...],
    chosen: str | None,
    facts: GroupFacts | None,
    snapshot: Snapshot,
) -> tuple[NodeExplanation, ...]:
    """Return each node with its role in the plan for a whole group, where scores decide nothing."""
    labels = {node.key: node.metadata.labels for node in snapshot.nodes}

    def planned(one: NodeExplanation) -> NodeExplanation:
        if one.name == chosen:
            return replace(one, why="chosen by the plan for the group")
        if not one.feasible:
            return one
        why = left_out(facts, one.name, labels.get(one.name, {}))
        if not why:
            return replace(one, why=ELSEWHERE)
        plugin = "ClusterTopologyPlacementGroup"
        return replace(one, feasible=False, rejected_by=plugin, reasons=(why,), why=why)

    return tuple(map(planned, nodes))


def _priced(explanation: Explanation, pod: Pod, engine: Engine) -> Explanation:
    ties = network_bill(engine).ties(pod, explanation.node or explanation.current_node or "")
    if not ties:
        return explanation
    return replace(explanation, ties=ties, network_cost=sum(tie.cost for tie in ties))


def _nodes(decision: Decision, attempt: Attempt, ties: Ties) -> tuple[NodeExplanation, ...]:
    alone = _each_alone(decision, attempt)
    return explained_nodes(verdicts(decision, attempt.nodes), decision.node, ties, alone)


def explained_nodes(
    listed: tuple[NodeVerdict, ...],
    chosen: str,
    ties: Ties,
    alone: Mapping[str, dict[str, PluginVerdict]] | None = None,
) -> tuple[NodeExplanation, ...]:
    """Return verdicts with the reason why the node `chosen` was preferred.

    `alone` has each filter's own verdict.
    """
    best = next((one for one in listed if one.name == chosen), None)
    return tuple(
        NodeExplanation(
            **asdict(one), plugins=(alone or {}).get(one.name, {}), why=_why(one, best, ties)
        )
        for one in listed
    )


def _each_alone(decision: Decision, attempt: Attempt) -> dict[str, dict[str, PluginVerdict]]:
    """Run each filter on every node, as if it were the only one."""
    found: dict[str, dict[str, PluginVerdict]] = {}
    if not decision.status.is_success and decision.status.plugin:
        return found  # pre-filter ended it: the other filters have no state
    nodes, states = attempt.nodes, attempt.states
    rows = list(zip(nodes.names(nodes.exists), nodes.exists.nonzero()[0].tolist(), strict=True))
    profile = attempt.runner.profile
    for bound in profile.filter:
        if bound.name in states.skipped:
            continue
        runner = Runner(replace(profile, filter=(bound,)))
        # The attempt has selected the filters it needs in combination; here each one runs.
        states.filters = (bound,)
        try:
            _, rejections = runner.filter(attempt.cycle, nodes, states, nodes.exists)
        except PluginError:
            continue
        for name, row in rows:
            status = next(
                (r.rejected.status(row, r.plugin) for r in rejections if r.rows[row]), Status()
            )
            knows = bound.plugin.figures if bound.plugin.serves("figures") else None
            figures = knows(attempt.cycle, name) if knows is not None else ()
            verdict = PluginVerdict(status.code.value, status.reasons, figures)
            found.setdefault(name, {})[bound.name] = verdict
    if decision.fits:
        for name, figures in _score_figures(decision.node, attempt):
            found.setdefault(decision.node, {})[name] = PluginVerdict("", figures=figures)
    return found


def _score_figures(node: str, attempt: Attempt) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Yield the figures of plugins that only score, about the chosen node."""
    profile = attempt.runner.profile
    filters = {bound.name for bound in profile.filter}
    for bound in profile.score:
        if bound.name not in filters and bound.plugin.serves("figures"):
            figures = bound.plugin.figures(attempt.cycle, node)
            if figures:
                yield bound.name, figures


def _why(node: NodeVerdict, best: NodeVerdict | None, ties: Ties) -> str:
    """Return as text why a node was chosen or not."""
    if node.code == Code.SKIP:
        return "not evaluated: the pod is nominated to another node, or enough others fit"
    if not node.feasible:
        return f"{node.rejected_by or 'rejected'}: {', '.join(node.reasons)}"
    if best is None or node.name == best.name or node.total is None or best.total is None:
        return "chosen" if node.total is not None else "chosen: the only one that fits"
    if node.total == best.total:
        return f"same score as {best.name}; {DECIDES[ties]}"
    lead = f"{best.total - node.total} behind {best.name}"
    return f"{lead}: {', '.join(_differences(node, best))}"


ELSEWHERE = "takes one such pod; the group is placed as a whole"


def _differences(node: NodeVerdict, best: NodeVerdict) -> Iterable[str]:
    """Yield each plugin's contribution to the score difference, the largest loss first."""
    gaps = [
        (score.weighted - best.scores[plugin].weighted, plugin)
        for plugin, score in node.scores.items()
        if plugin in best.scores
    ]
    return (f"{plugin} {gap:+d}" for gap, plugin in sorted(gaps) if gap)
