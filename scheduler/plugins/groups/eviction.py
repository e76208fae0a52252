"""Who might have to go for a group: the placed pods of lower priority as candidates for the solver.

A group goes as a whole or not at all; single pods that are alike on one node are counted together.
The order of badness is D26: violated budgets, then pods by priority from the highest down, then groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from scheduler.framework.nodes import Nodes
from scheduler.objects.policy import PodDisruptionBudget
from scheduler.objects.selectors import selector_matches
from scheduler.plugins.groups.members import group_of
from scheduler.plugins.groups.mixing import port_name
from scheduler.solver.instance import Budget, Candidate, Instance, Leaf, Preemption
from scheduler.state.podindex import Placed
from scheduler.state.resources import PODS


class Lineup(msgspec.Struct, frozen=True):
    """A problem for the solver, and the pods behind each of its candidates, least important first."""

    problem: Preemption
    pods: tuple[tuple[Placed, ...], ...]

    def victims(self, evicted: Mapping[int, int]) -> tuple[Placed, ...]:
        """Return the pods that an answer evicts."""
        return chosen(self.problem.candidates, self.pods, evicted)


def chosen(
    made: Sequence[Candidate], pods: Sequence[tuple[Placed, ...]], evicted: Mapping[int, int]
) -> tuple[Placed, ...]:
    """Return the pods of the candidates that are evicted; of like single pods the first so many."""
    found: list[Placed] = []
    for index, count in sorted(evicted.items()):
        found += pods[index][:count] if made[index].single else pods[index]
    return tuple(found)


def lineup(
    instance: Instance,
    names: Sequence[str],
    nodes: Nodes,
    request: Mapping[str, int],
    candidates: Iterable[tuple[str, int, tuple[Placed, ...]]],
    budgets: Iterable[PodDisruptionBudget],
    *,
    forbid: bool,
) -> Lineup:
    """Return the problem of making room in `instance` by evicting some of `candidates`.

    A candidate is (group key or "", priority, pods); `names` are the nodes of the leaves, `request`
    is what a member asks for, its one pod included.
    """
    resources = tuple(sorted(request))
    known = tuple(budgets)
    where = {name: leaf for leaf, name in enumerate(names)}
    leaves = []
    for leaf, name in zip(instance.leaves, names, strict=True):
        row = nodes.row(name)
        free = tuple(
            0 if row is None else int(nodes.allocatable(r)[row] - nodes.requested(r)[row])
            for r in resources
        )
        leaves.append(Leaf(leaf.path, -1, free, leaf.held))
    problem = msgspec.structs.replace(
        instance, leaves=tuple(leaves), request=tuple(request[r] for r in resources)
    )
    made, pods = candidates_of(candidates, where, resources, known)
    allowed = tuple(
        Budget(f"{b.metadata.namespace}/{b.metadata.name}", max(0, b.status.disruptions_allowed))
        for b in known
    )
    return Lineup(Preemption(problem, tuple(made), allowed, forbid), tuple(pods))


def lower(
    placed: Iterable[Placed],
    priority: int,
    unit_of: Callable[[str, Sequence[Placed]], tuple[bool, int]],
    own: str,
) -> list[tuple[str, int, tuple[Placed, ...]]]:
    """Return who may be evicted for the group `own` of this priority: whole groups, and single pods.

    `unit_of` says whether a group goes only as a whole, and with what priority. Pods that are leaving
    already make room by themselves.
    """
    gangs: dict[str, list[Placed]] = {}
    found: list[tuple[str, int, tuple[Placed, ...]]] = []
    for one in placed:
        if one.pod.is_terminating:
            continue
        key = group_of(one.pod)
        if key:
            gangs.setdefault(key, []).append(one)
        elif one.pod.priority < priority:
            found.append(("", one.pod.priority, (one,)))
    for key, pods in gangs.items():
        if key == own:
            continue
        is_whole, effective = unit_of(key, pods)
        if is_whole and effective < priority:
            found.append((key, effective, tuple(pods)))
        elif not is_whole:
            singles = (one for one in pods if one.pod.priority < priority)
            found += [("", one.pod.priority, (one,)) for one in singles]
    return found


def candidates_of(
    candidates: Iterable[tuple[str, int, tuple[Placed, ...]]],
    where: Mapping[str, int],
    resources: tuple[str, ...],
    budgets: Sequence[PodDisruptionBudget],
) -> tuple[list[Candidate], list[tuple[Placed, ...]]]:
    """Return the candidates for the solver, with the pods behind each; `where` are leaves by node."""
    made: list[Candidate] = []
    pods: list[tuple[Placed, ...]] = []
    alike: dict[tuple[int, int, tuple[int, ...], tuple[int, ...]], list[Placed]] = {}
    for key, priority, members in candidates:
        if not any(one.node in where for one in members):
            continue
        if not key:
            one = members[0]
            covered = tuple(sorted(_covered(members, budgets)))
            at = (where[one.node], priority, _amounts(one, resources), covered)
            alike.setdefault(at, []).append(one)
            continue
        freed: dict[int, tuple[int, ...]] = {}
        for one in members:
            if one.node in where:
                leaf, amounts = where[one.node], _amounts(one, resources)
                before = freed.get(leaf, (0,) * len(resources))
                freed[leaf] = tuple(a + b for a, b in zip(before, amounts, strict=True))
        made.append(
            Candidate(key, priority, len(members), freed, budgets=_covered(members, budgets))
        )
        pods.append(members)
    for (leaf, priority, amounts, covered), singles in alike.items():
        # The one that has run for the shortest time goes first.
        singles.sort(key=lambda one: one.pod.key)
        singles.sort(key=lambda one: one.pod.status.start_time or "~", reverse=True)
        name = f"{singles[0].pod.key} and {len(singles) - 1} others"
        made.append(
            Candidate(
                name if len(singles) > 1 else singles[0].pod.key,
                priority,
                1,
                {leaf: amounts},
                single=True,
                count=len(singles),
                budgets=dict.fromkeys(covered, 1),
            )
        )
        pods.append(tuple(singles))
    return made, pods


def _amounts(one: Placed, resources: tuple[str, ...]) -> tuple[int, ...]:
    """Return what a pod gives back of each resource; a host port is one where the pod holds it."""
    ports = {port_name(port) for port in one.shape.host_ports}
    return tuple(1 if r == PODS or r in ports else one.requests.get(r, 0) for r in resources)


def _covered(pods: Sequence[Placed], budgets: Sequence[PodDisruptionBudget]) -> dict[int, int]:
    """Return how many of these pods each budget protects, by its number."""
    counts: dict[int, int] = {}
    for number, budget in enumerate(budgets):
        covered = 0
        for one in pods:
            meta = one.pod.metadata
            if (
                meta.namespace == budget.metadata.namespace
                and meta.name not in budget.status.disrupted_pods
                and selector_matches(budget.spec.selector, meta.labels)
            ):
                covered += 1
        if covered:
            counts[number] = covered
    return counts
