"""Why a group is pending: its condition's message, the conflicting rules and requests, and
remedies.

Called by `explain` for a member of a group. The sentence is the condition's own, so that
explanation, condition and event agree; remedies are tried (`remedies`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import msgspec
from msgspec.structs import replace

from scheduler.base.reasons import UNSCHEDULABLE
from scheduler.explain.why.grouptrials import GroupEdit, GroupTrial
from scheduler.explain.why.records import UnmetRequirement, Why
from scheduler.explain.why.remedies import remedies
from scheduler.explain.why.requirements import PodRequirement, requirements_of, without_all
from scheduler.explain.why.rules import LevelRuleRequirement, rules_of
from scheduler.explain.why.search import ChangeSearch, FoundChanges
from scheduler.explain.why.trials import PodTrial
from scheduler.framework.groups import GroupReport, MemberOrder, title
from scheduler.groups.plugin import ClusterTopologyPlacementGroup, GroupFacts
from scheduler.simulate.records import PodResult
from scheduler.simulate.simulate import SimulationRun

REQUEST = "request: "
MOST_TRIALS = 200
MOST_RUNS = 16
CONFLICT_S = 1.0


def why_with_group(
    member: PodResult, group: GroupReport | None, key: str, run: SimulationRun
) -> Why:
    """Return why `member` of the group `key` has its result after `run`, which this call
    consumes.
    """
    name = title(key)
    if member.node is not None:
        size = "" if group is None else f"{group.size} pods of the "
        is_best = group is not None and group.optimal
        proof = ", and no placement of them is better" if is_best else ""
        text = f"{member.key} would go to {member.node} with the {size}group {name}{proof}"
        order = _order_of(member.name, group)
        return Why(sentence=f"{text}; {order}" if order else text)
    if member.victims:
        gone = ", ".join(f"{pod.namespace}/{pod.name}" for pod in member.victims)
        text = f"{member.key} waits with the group {name}, for which {gone} will be evicted"
        return Why(sentence=text)
    why = Why(sentence=f"{member.key} waits: {member.message}")
    if member.reason != UNSCHEDULABLE or group is None:
        return why  # it was not tried
    facts = facts_of(run, member.profile, key)
    trial = GroupTrial(run, key)
    if facts is None or not trial.members:
        return why
    requirements, found = _conflict(trial, facts, group)
    corrections = [[requirements[one] for one in some] for some in found.corrections]
    return replace(
        why,
        conflict=tuple(
            UnmetRequirement(requirements[one].field, requirements[one].text)
            for one in found.conflict
        ),
        smallest=found.is_smallest,
        suggestions=remedies(trial, facts, group, corrections),
    )


def _order_of(name: str, group: GroupReport | None) -> str:
    """Return the order by index of a member in words, with its crossings; '' without one."""
    orders = () if group is None or group.orders is msgspec.UNSET else group.orders
    for order in orders:
        if any(member == name for member, _ in order.members):
            crossings = ", ".join(
                f"{number} of {level}"
                + ("" if number == order.bound[level] else _at_least(order.bound[level]))
                for level, number in order.crossings.items()
            )
            fewest = ", the fewest possible" if order.is_proven else ""
            return f"by index: {_runs(order)}; crossings: {crossings}{fewest}"
    return ""


def _at_least(bound: int) -> str:
    return f" (at least {bound})"


def _runs(order: MemberOrder) -> str:
    """Return the members node by node, of a long order its beginning."""
    runs = [
        (node, [name for name, _ in run])
        for node, run in groupby(order.members, key=lambda one: one[1])
    ]
    texts = [f"{_first_to_last(names)} on {node}" for node, names in runs[:MOST_RUNS]]
    if len(runs) > MOST_RUNS:
        texts.append(f"and {len(runs) - MOST_RUNS} more")
    return ", ".join(texts)


def _first_to_last(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _conflict(
    trial: GroupTrial, facts: GroupFacts, group: GroupReport
) -> tuple[tuple[PodRequirement | LevelRuleRequirement, ...], FoundChanges]:
    """Return the requirements and rules of the members, and a minimal conflict (by number).

    The first member's requirements represent all: the others have the same, or weaker ones.
    """
    engine, first = trial.run.engine, trial.members[0]
    own = requirements_of(first, PodTrial(engine, first, trial.now).untolerated())
    own = tuple(replace(one, text=_phrase(one)) for one in own)
    rules = rules_of(facts)
    requirements: tuple[PodRequirement | LevelRuleRequirement, ...] = (*own, *rules)

    def fits(removed: frozenset[int]) -> bool | None:
        relaxed = [own[one] for one in sorted(removed) if one < len(own)]
        edit = GroupEdit(tuple(without_all(pod, relaxed) for pod in trial.members))
        for one in sorted(removed):
            if one >= len(own):
                edit = rules[one - len(own)].drop(edit)
        nodes = trial.placed(edit)
        return None if nodes is None else bool(nodes)

    named = {f"requests[{text.rpartition(' ')[2]}]" for text in group.conflict if REQUEST in text}
    order = sorted(range(len(requirements)), key=lambda one: requirements[one].field not in named)
    with trial.within(CONFLICT_S):
        return requirements, ChangeSearch(order, fits, MOST_TRIALS).run()


def _phrase(requirement: PodRequirement) -> str:
    """Return a requirement as text for a placement of many pods."""
    text = requirement.text.replace("satisfies its", "satisfies their", 1)
    return text.replace("has ", "gives each ", 1) if requirement.resource else text


def facts_of(run: SimulationRun, profile: str, key: str) -> GroupFacts | None:
    """Return the description and plan of a group; None for a planner that does not report it."""
    plugins = run.engine.profiles[profile].plugins.values()
    known = next((one for one in plugins if isinstance(one, ClusterTopologyPlacementGroup)), None)
    return None if known is None else known.group_facts(key)


def left_out(facts: GroupFacts | None, node: str, labels: Mapping[str, str]) -> str:
    """Return why a node is not in the tree of a group, '' if it is."""
    tree = None if facts is None else facts.tree
    if tree is None or node in tree.paths:
        return ""
    missing = next((label for label in tree.aliases if label not in labels), "")
    if missing:
        return f"left out: it has no label {missing}"
    return f"left out: the topology ({tree.source}) does not name it"
