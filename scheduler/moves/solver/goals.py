"""The constraints of the goal, and cuts that shorten its proof."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

from scheduler.moves.solver.bounds import Departures
from scheduler.moves.solver.problem import Claim, Cool, Fit, Free, Repair
from scheduler.moves.solver.variables import Flow, Variables


def build(model: Variables) -> None:
    """Add the constraints of the goal."""
    goal = model.problem.goal
    if isinstance(goal, Fit):
        for number, claim in enumerate(goal.claims):
            _claim(model, number, claim)
        _departures(model)
    elif isinstance(goal, Free):
        _free(model, goal)
    elif isinstance(goal, Cool):
        _cool(model)
    else:
        _repair(model, goal)


def _claim(model: Variables, number: int, claim: Claim) -> None:
    """Place all copies, each inside one domain."""
    if claim.level is None:
        members = {0: list(range(len(model.problem.nodes)))}
    else:
        members = model.problem.members(claim.level)
    for domain in members:
        model.copies[number, domain] = model.cp.new_int_var(0, claim.copies, f"x{number},{domain}")
    model.cp.add(sum(model.copies[number, domain] for domain in members) == claim.copies)
    for domain, nodes in members.items():
        copies = model.copies[number, domain]
        for at, role in enumerate(claim.roles):
            own = [
                model.waiting[key] for node in nodes if (key := (number, at, node)) in model.waiting
            ]
            model.cp.add(sum(own) == role.number * copies)
        if claim.apart:
            _apart(model, number, claim, nodes, copies)
    outside = [
        variable
        for (which, _, node), variable in model.waiting.items()
        if which == number
        and claim.level is not None
        and model.problem.domain(claim.level, node) < 0
    ]
    if outside:
        model.cp.add(sum(outside) == 0)


def _apart(model: Variables, number: int, claim: Claim, nodes: list[int], copies: Any) -> None:
    """Place at most one pod of each copy on a node."""
    for node in nodes:
        roles = range(len(claim.roles))
        own = [model.waiting[key] for at in roles if (key := (number, at, node)) in model.waiting]
        if own:
            model.cp.add(sum(own) <= copies)


def _departures(model: Variables) -> None:
    """Require the minimum number of departures for 1, 2, … waiting pods of a role on a node.

    Implied by capacity, but not by its linear relaxation: 6 requested GPUs beside 5 free ones
    require one departure, not five sixths of a pod.
    """
    counting = Departures(model.problem, None)
    out: defaultdict[int, list[Flow]] = defaultdict(list)
    for flow in model.leaving:
        out[flow.node].append(flow)
    for flow in model.claimed:
        least = counting.least(flow.node, flow.request, flow.most)
        if not least[-1]:
            continue
        steps = [model.cp.new_bool_var("") for _ in range(len(least) - 1)]
        model.cp.add(sum(steps) == flow.pods)
        for one, other in pairwise(steps):
            model.cp.add_implication(other, one)
        needed = sum(
            (after - before) * step
            for step, before, after in zip(steps, least, least[1:], strict=False)
        )
        model.cp.add(sum(leaves.pods for leaves in out[flow.node]) >= needed)


def _free(model: Variables, goal: Free) -> None:
    """Empty domains: all units leave, and no unit arrives."""
    members = model.problem.members(goal.level)
    out: defaultdict[int, list[Flow]] = defaultdict(list)
    into: defaultdict[int, list[Flow]] = defaultdict(list)
    running: defaultdict[int, int] = defaultdict(int)
    for flow in model.leaving:
        out[flow.node].append(flow)
    for flow in model.arriving:
        into[flow.node].append(flow)
    for pod in model.problem.pods:
        running[pod.node] += 1
    for domain in goal.domains:
        nodes = members[domain]
        pinned = any(model.problem.nodes[node].pinned for node in nodes)
        blocked = any(running[node] > sum(flow.most for flow in out[node]) for node in nodes)
        if pinned or blocked:
            continue
        free = model.freed[domain] = model.cp.new_bool_var(f"free{domain}")
        for node in nodes:
            for flow in out[node]:
                model.cp.add(flow.pods >= flow.most * free)
            for flow in into[node]:
                model.cp.add(flow.pods <= flow.most * (1 - free))
    model.cp.add(sum(model.freed.values()) >= goal.number)


def _cool(model: Variables) -> None:
    """Bring each node below its threshold; an arrival counts while all sources still run."""
    out: defaultdict[int, Any] = defaultdict(int)
    into: defaultdict[int, Any] = defaultdict(int)
    for flow in model.leaving:
        if flow.load:
            out[flow.node] += flow.load * flow.pods
    for flow in model.arriving:
        if flow.load:
            into[flow.node] += flow.load * flow.pods
    for index, node in enumerate(model.problem.nodes):
        if index in into:
            model.cp.add(into[index] <= max(0, node.headroom))
        if node.headroom < 0:
            model.cp.add(out[index] >= -node.headroom)


def _repair(model: Variables, goal: Repair) -> None:
    """Require that one pod of each clause leaves, and as many pods as an overcommitted node
    needs.
    """
    sources = {unit: index for index, one in enumerate(model.kinds.sources) for unit in one.units}
    owner = {pod: at for at, unit in enumerate(model.problem.units) for pod in unit.pods}
    for clause in goal.clauses:
        units = {owner[pod] for pod in clause}
        found = {sources[unit] for unit in units if unit in sources} & model.out.keys()
        terms = [model.out[index] for index in sorted(found)]
        terms += [model.moves[unit] for unit in sorted(units & model.moves.keys())]
        model.cp.add(sum(terms) >= 1)
    leaving: defaultdict[tuple[int, int], Any] = defaultdict(int)
    for flow in model.leaving:
        for resource, amount in enumerate(flow.request):
            leaving[flow.node, resource] += amount * flow.pods
    for index, node in enumerate(model.problem.nodes):
        for resource, free in enumerate(node.free):
            if free < 0:
                model.cp.add(leaving[index, resource] >= -free)
