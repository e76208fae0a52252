"""Play a scenario step by step and check its expectations.

Output goes through `Show`; the result is the `ScenarioOutcome`.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence

import msgspec

from scheduler.base.clock import perf_s
from scheduler.demo.form import Chapter, CostLimit, Expectation, ScenarioFile, ScenarioStep
from scheduler.demo.proof import cost, where
from scheduler.demo.show import Show
from scheduler.demo.stage import ScenarioStage, carries
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod

LOOK_EVERY_S = 0.05


class ScenarioOutcome(msgspec.Struct, frozen=True):
    """The result of a scenario; `failures` are the expectations that did not become true."""

    chapters: int
    expectations: int
    failures: tuple[str, ...]
    placed: int
    seconds: float

    @property
    def went_well(self) -> bool:
        """Return whether all expectations became true."""
        return not self.failures


async def play(
    scenario: ScenarioFile, stage: ScenarioStage, show: Show, pause_s: float
) -> ScenarioOutcome:
    """Play all chapters; `pause_s` is the reading time after each step."""
    started_s = perf_s()
    expectations, failures = 0, []
    for number, chapter in enumerate(scenario.chapters, 1):
        show.chapter(number, chapter.title)
        for step in chapter.steps:
            failure = await _step(step, chapter, stage, show)
            expectations += any(one is not None for one in (step.expect, step.cost, step.prove))
            if failure:
                failures.append(f"{chapter.title}: {failure}")
            show.look(await stage.nodes(), await stage.pods())
            await asyncio.sleep(pause_s)
    placed = sum(bool(pod.spec.node_name) for pod in await stage.pods())
    return ScenarioOutcome(
        len(scenario.chapters), expectations, tuple(failures), placed, perf_s() - started_s
    )


async def _step(step: ScenarioStep, chapter: Chapter, stage: ScenarioStage, show: Show) -> str:
    """Do one step; return its fault, or ''."""
    del chapter
    if step.say is not None:
        show.say(step.say)
    elif step.apply is not None:
        show.did(f"kubectl apply -f {step.apply}", await stage.apply(step.apply))
    elif step.delete is not None:
        await stage.delete(step.delete)
        show.did(f"kubectl delete {step.delete}")
    elif step.drain is not None:
        show.did(f"kubectl drain {step.drain}: {await stage.drain(step.drain)} pods are evicted")
    elif step.uncordon is not None:
        await stage.uncordon(step.uncordon)
        show.did(f"kubectl uncordon {step.uncordon}")
    elif step.taint is not None:
        text = f"{step.taint.key}={step.taint.value}:{step.taint.effect}"
        show.did(f"kubectl taint {text} on {await stage.taint(step.taint)} nodes")
    elif step.scale is not None:
        await stage.scale(step.scale)
        show.did(f"kubectl scale {step.scale.name} --replicas={step.scale.replicas}")
    elif step.expect is not None:
        return await _expect(step.expect, stage, show)
    elif step.cost is not None:
        return await _cost(step.cost, stage, show)
    elif step.prove is not None:
        return await _prove(step.prove, stage, show)
    return ""


async def _prove(group: str, stage: ScenarioStage, show: Show) -> str:
    """Have the solver prove that a group's placement is optimal; return the fault, or ''."""
    found = await stage.proof(group)
    if not found.optimal:
        wrong = f"{group}: {found.status}, not proven to be the best"
        show.broken(wrong)
        return wrong
    text = f"{group}: {where(found.placement)}; {cost(found)}"
    show.met(f"{text}proven: there is no better placement")
    return ""


async def _cost(wanted: CostLimit, stage: ScenarioStage, show: Show) -> str:
    """Compare the cost of applications with the limit; return the fault, or ''."""
    found = await stage.costs(wanted.against)
    text = (
        f"{found.pods} pods cost {found.placed} on the network as they are placed, "
        f"{found.otherwise} by {wanted.against}"
    )
    if found.placed > wanted.at_most * found.otherwise:
        wrong = f"{text}: more than {wanted.at_most:.0%}"
        show.broken(wrong)
        return wrong
    show.met(text)
    return ""


async def _expect(wanted: Expectation, stage: ScenarioStage, show: Show) -> str:
    """Wait until an expectation is true; return the remaining fault at its deadline, or ''."""
    deadline = perf_s() + wanted.within
    while True:
        nodes, pods = await stage.nodes(), await stage.pods()
        show.look(nodes, pods)
        chosen = [pod for pod in pods if _is_meant(pod, wanted)]
        wrong = _wrong(wanted, chosen, nodes) or await _missing_event(wanted, chosen, stage)
        if not wrong:
            show.met(_summary(wanted, chosen))
            return ""
        if perf_s() > deadline:
            show.broken(wrong)
            return wrong
        await asyncio.sleep(LOOK_EVERY_S)


async def _missing_event(wanted: Expectation, pods: Sequence[Pod], stage: ScenarioStage) -> str:
    """Return the fault that no event has the expected text, or ''."""
    if not wanted.event:
        return ""
    notes = await stage.notes({pod.metadata.uid for pod in pods})
    return (
        ""
        if any(wanted.event in note for note in notes)
        else f'no event has the text "{wanted.event}"'
    )


def _is_meant(pod: Pod, wanted: Expectation) -> bool:
    meta = pod.metadata
    return (
        meta.namespace == wanted.namespace
        and not pod.is_terminating
        and not pod.is_finished
        and carries(meta.labels, wanted.selector)
    )


def _wrong(wanted: Expectation, pods: Sequence[Pod], nodes: Sequence[Node]) -> str:
    """Return the first deviation from the expectation, or ''."""
    placed = [pod for pod in pods if pod.spec.node_name]
    pending = [pod for pod in pods if not pod.spec.node_name]
    if wanted.placed is not None and len(placed) != wanted.placed:
        return f"{len(placed)} pods are placed instead of {wanted.placed}"
    if wanted.pending is not None and len(pending) != wanted.pending:
        return f"{len(pending)} pods are pending instead of {wanted.pending}"
    labels = {node.metadata.name: node.metadata.labels for node in nodes}
    for pod in placed:
        node = pod.spec.node_name
        if node == wanted.except_node:
            return f"{pod.key} is on {node}"
        if not carries(labels.get(node, {}), wanted.nodes):
            return f"{pod.key} is on {node}, which has no labels {wanted.nodes}"
    found = Counter(pod.spec.node_name for pod in placed)
    if wanted.per_node and found != wanted.per_node:
        return f"the pods per node are {dict(sorted(found.items()))}"
    for pod in pending:
        if wanted.message not in message_of(pod):
            return f'{pod.key} is pending for another reason: "{message_of(pod)}"'
    return ""


def message_of(pod: Pod) -> str:
    """Return why a pod is not scheduled, from its condition."""
    condition = pod.condition("PodScheduled")
    return condition.message if condition is not None else ""


def _summary(wanted: Expectation, pods: Sequence[Pod]) -> str:
    placed = sum(bool(pod.spec.node_name) for pod in pods)
    parts = [f"{placed} of {len(pods)} pods are placed"]
    if wanted.nodes:
        parts.append("all on " + ", ".join(f"{k}={v}" for k, v in wanted.nodes.items()))
    if wanted.except_node:
        parts.append(f"none on {wanted.except_node}")
    if wanted.per_node:
        parts.append(", ".join(f"{count} on {node}" for node, count in wanted.per_node.items()))
    if wanted.event:
        parts.append(f"an event says: {wanted.event}")
    reasons = {message_of(pod) for pod in pods if not pod.spec.node_name} - {""}
    parts += sorted(reasons)
    return "; ".join(parts)
