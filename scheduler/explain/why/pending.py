"""Why a pod is pending: the conflict, remedies, the result of preemption, and wake-up events.

Called by `explain` with an attempt's outcome; `scheduler.explain.why.search` finds the conflict by
trials with the engine. A call makes a bounded number of them: fewer where there are more nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import replace

from scheduler.base.errors import TrellisError
from scheduler.engine.attempt.attempt import decide
from scheduler.engine.decision import Decision
from scheduler.engine.engine import Engine
from scheduler.explain.why.records import SuggestedChange, Suggestion, UnmetRequirement, Why
from scheduler.explain.why.requirements import PodRequirement, requirements_of, without_all
from scheduler.explain.why.search import ChangeSearch, FoundChanges
from scheduler.explain.why.suggesting import SuggestionSearch
from scheduler.explain.why.trials import PodTrial
from scheduler.objects.pod import Pod
from scheduler.objects.quantity import resource_text
from scheduler.simulate.hints import woken_by

# A trial takes 0.3 ms at 5,000 nodes: with this number, 0.3 s.
MOST_TRIALS = 1_000
MOST_ROWS_TRIED = 5_000_000
MOST_SUGGESTIONS = 5
MOST_NAMED = 3
# Priorities above are those of system components.
HIGHEST_OF_USERS = 1_000_000_000 - 1
PREEMPTION = " preemption: "


def why_pending(
    engine: Engine, pod: Pod, decision: Decision, now: float, current: str | None = None
) -> Why:
    """Return why `decision` found no node for `pod`, which is on `current` if bound.

    The engine is restored afterwards.
    """
    trials = PodTrial(engine, pod, now)
    nodes = engine.attempt(pod, now).nodes.count
    requirements, found = conflict_of(
        trials, max(40, min(MOST_TRIALS, MOST_ROWS_TRIED // max(1, nodes)))
    )
    suggesting = SuggestionSearch(trials)
    suggestions = _suggestions(suggesting, requirements, found)
    why = Why(
        sentence="",
        conflict=tuple(
            UnmetRequirement(requirements[one].field, requirements[one].text)
            for one in found.conflict
        ),
        smallest=found.is_smallest,
        suggestions=suggestions + with_priority(engine, pod, decision, now),
        preemption=decision.message.partition(PREEMPTION)[2],
        woken_by=woken_by(engine.profiles[pod.spec.scheduler_name], decision.waits_for),
    )
    lead = (
        f"{pod.key} waits"
        if current is None
        else f"{pod.key} is on {current}; would now be pending"
    )
    largest = _largest(suggesting, [requirements[one] for one in found.conflict])
    return replace(why, sentence=f"{lead}{_reason(decision, why, nodes, largest)}")


def _largest(suggesting: SuggestionSearch, requirements: Sequence[PodRequirement]) -> str:
    """Return the largest node's amount of each resource that no node has enough of."""
    found = []
    for requirement in requirements:
        known = suggesting.largest(requirement)
        if known is not None:
            most, is_part = known
            if not most:
                found.append(f"no node offers {requirement.resource}")
                continue
            which = "the largest that otherwise fits" if is_part else "the largest node"
            found.append(
                f"{which} has {resource_text(requirement.resource, most)} {requirement.resource}"
            )
    return listed(found)


def conflict_of(trials: PodTrial, most: int) -> tuple[tuple[PodRequirement, ...], FoundChanges]:
    """Return all requirements of the trials' pod, and a minimal conflict (by number)."""
    own = requirements_of(trials.pod, trials.untolerated())
    requirements = (*own, *trials.plugin_requirements(without_all(trials.pod, own)))
    counts: dict[frozenset[int], int] = {}

    def fitting(removed: frozenset[int]) -> int:
        if removed not in counts:
            relaxed = [requirements[number] for number in sorted(removed)]
            rows = trials.rows(without_all(trials.pod, relaxed), relaxed)
            counts[removed] = int(np.count_nonzero(rows))
        return counts[removed]

    everything = frozenset(range(len(requirements)))
    # A requirement that alone excludes most nodes is named first.
    order = sorted(everything, key=lambda one: (fitting(everything - {one}), one))
    return requirements, ChangeSearch(order, lambda removed: fitting(removed) > 0, most).run()


def _suggestions(
    suggesting: SuggestionSearch, requirements: Sequence[PodRequirement], found: FoundChanges
) -> tuple[Suggestion, ...]:
    made = [
        suggesting.suggestion([requirements[one] for one in some])
        for some in found.corrections
        if some
    ]
    listed = sorted((one for one in made if one is not None), key=lambda one: one[0])
    return tuple(suggestion for _, suggestion in listed[:MOST_SUGGESTIONS])


def with_priority(
    engine: Engine, pod: Pod, decision: Decision, now: float
) -> tuple[Suggestion, ...]:
    """Return the lowest priority found with which the pod would get a node by evictions."""
    if decision.nominated_node or pod.spec.preemption_policy == "Never":
        return ()
    there = [placed.pod.priority for placed in engine.view.placed]
    highest = max((one for one in there if one <= HIGHEST_OF_USERS), default=pod.priority)
    if highest < pod.priority:
        return ()
    found = _evicting(engine, pod, highest + 1, now)
    if found is None:
        return ()
    priority = min(highest, max(victim.pod.priority for victim in found.victims)) + 1
    lower = found if priority > highest else _evicting(engine, pod, priority, now)
    if lower is None:
        priority, lower = highest + 1, found
    node = str(lower.nominated_node)
    gone = named(victim.pod for victim in lower.victims)
    change = SuggestedChange(f"Pod {pod.key}", "spec.priority", "set", str(priority))
    text = f"fits {node} with a priority of {priority}, in place of {gone}"
    return (Suggestion(node, (change,), text),)


def _evicting(engine: Engine, pod: Pod, priority: int, now: float) -> Decision | None:
    higher = replace(pod, spec=replace(pod.spec, priority=priority))
    try:
        found = decide(engine.attempt(higher, now))
    except TrellisError:
        return None
    return found if found.nominated_node and found.victims else None


def _reason(decision: Decision, why: Why, nodes: int, largest: str) -> str:
    """Return why a pod is pending, as the end of a sentence.

    `largest` is the largest nodes' amounts.
    """
    if decision.nominated_node and decision.victims:
        gone = named(victim.pod for victim in decision.victims)
        return f" for {decision.nominated_node}, where {gone} are evicted for it"
    if not nodes:
        return ": there is no node"
    if not why.conflict:
        return f": {decision.message}"
    texts = [unmet.text for unmet in why.conflict]
    text = f": {'no node' if nodes == 1 else f'none of {nodes} nodes'} {listed(texts)}"
    text += f": {largest}" if largest else ""
    return text + (f"; it {why.suggestions[0].text}" if why.suggestions else "")


def named(pods: Iterable[Pod]) -> str:
    """Return the names of some pods, of many the first few."""
    keys = [pod.key for pod in pods]
    if len(keys) > MOST_NAMED:
        keys = [*keys[:MOST_NAMED], f"{len(keys) - MOST_NAMED} more"]
    return listed(keys)


def listed(texts: Sequence[str]) -> str:
    """Return `a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
