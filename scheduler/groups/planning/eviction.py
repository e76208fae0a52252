"""Candidates for eviction in favour of a group: placed pods of lower priority, for the solver.

A group is evicted as a whole or not at all; identical single pods on one node are counted together.
The order of harm: violated budgets, then pods by priority from the highest down, then pods that fit
no other node if the arguments request that, then groups.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from scheduler.base.arrays import IntColumn
from scheduler.framework.hypothetical.elsewhere import Elsewhere
from scheduler.groups.description.describing import Descriptions
from scheduler.groups.planning.between import port_name
from scheduler.groups.planning.conflicts import Conflicts
from scheduler.groups.problem.instance import (
    Budget,
    Candidate,
    ElasticGroup,
    Instance,
    Leaf,
    PreemptionInstance,
)
from scheduler.objects.policy import PodDisruptionBudget
from scheduler.objects.selectors import selector_matches
from scheduler.state.podindex import Placed
from scheduler.state.resources import PODS


class EvictionUnit(msgspec.Struct, frozen=True):
    """Pods that are evicted together or not at all: a group by its key, or one pod with ''.

    Up to `surplus` pods of a group may be evicted alone. `stranded` are the uids of pods that fit
    no other node, if requested.
    """

    key: str
    priority: int
    pods: tuple[Placed, ...]
    surplus: int = 0
    stranded: frozenset[str] = frozenset()


Candidates: TypeAlias = Sequence[EvictionUnit]


class VictimProblem(msgspec.Struct, frozen=True):
    """A problem for the solver, and the pods behind each of its candidates, least important
    first.
    """

    problem: PreemptionInstance
    pods: tuple[tuple[Placed, ...], ...]

    def victims(self, evicted: Mapping[int, int]) -> tuple[Placed, ...]:
        """Return the pods that an answer evicts."""
        return chosen(self.problem.candidates, self.pods, evicted)


def chosen(
    made: Sequence[Candidate], pods: Sequence[tuple[Placed, ...]], evicted: Mapping[int, int]
) -> tuple[Placed, ...]:
    """Return the candidates' pods that are evicted; of identical single pods the first ones."""
    found: list[Placed] = []
    for index, count in sorted(evicted.items()):
        found += pods[index][:count] if made[index].single else pods[index]
    return tuple(found)


def victim_problem(
    instance: Instance,
    names: Sequence[str],
    rows: Sequence[int],
    free: Mapping[str, IntColumn],
    request: Mapping[str, int],
    candidates: Candidates,
    budgets: Iterable[PodDisruptionBudget],
    *,
    forbid: bool,
    conflicts: Conflicts | None = None,
    counted: Mapping[str, Mapping[str, int]] | None = None,
) -> VictimProblem:
    """Return the problem of freeing capacity in `instance` by evicting some of `candidates`.

    `names` and `rows` are the nodes of the leaves, `free` is what each row has left of a resource,
    `request` what a member asks for, its one pod included. A leaf with conflicting pods lacks an
    additional resource that every member requests; the leaf gets it when all these pods have left.
    `counted` has, by pod uid, the set of each rule between members in which the pod counts.
    """
    resources = tuple(sorted(request))
    known = tuple(budgets)
    where = {name: leaf for leaf, name in enumerate(names)}
    leaves = []
    blocks = conflicts or {}
    blocked = Counter(leaf for each in blocks.values() for leaf in each)
    columns = [free[name] for name in resources]
    for at, (leaf, row) in enumerate(zip(instance.leaves, rows, strict=True)):
        left = tuple(int(column[row]) for column in columns)
        if blocks:
            left += (instance.size * (1 - blocked[at]),)
        leaves.append(Leaf(leaf.path, leaf.slots, left, leaf.fixed))
    needs = tuple(request[r] for r in resources) + ((1,) if blocks else ())
    problem = msgspec.structs.replace(instance, leaves=tuple(leaves), request=needs)
    freed = Freed(where, resources, blocks, instance.size, counted or {})
    made, pods, elastic = candidates_of(candidates, freed, known)
    allowed = tuple(
        Budget(f"{b.metadata.namespace}/{b.metadata.name}", max(0, b.status.disruptions_allowed))
        for b in known
    )
    preemption = PreemptionInstance(problem, tuple(made), allowed, forbid, elastic)
    return VictimProblem(preemption, tuple(pods))


def lower(
    placed: Iterable[Placed], priority: int, described: Descriptions, own: str
) -> list[EvictionUnit]:
    """Return the units that may be evicted for the group `own` of this priority: whole groups and
    pods.

    Some pods of a group that is evicted whole may be evicted alone (its surplus). Of a tree of
    groups the topmost one that is evicted whole is one unit. Terminating pods free capacity without
    an eviction.
    """
    gangs: dict[str, list[Placed]] = {}
    found: list[EvictionUnit] = []
    for one in placed:
        if one.pod.is_terminating:
            continue
        key = described.unit_key(one.pod)
        if key:
            gangs.setdefault(key, []).append(one)
        elif one.pod.priority < priority:
            found.append(EvictionUnit("", one.pod.priority, (one,)))
    for key, pods in gangs.items():
        if described.is_in(key, own):
            continue
        is_whole, effective = described.unit_of(key, pods)
        if is_whole and effective < priority:
            found.append(EvictionUnit(key, effective, tuple(pods), described.surplus_of(key, pods)))
        elif not is_whole:
            singles = (one for one in pods if one.pod.priority < priority)
            found += [EvictionUnit("", one.pod.priority, (one,)) for one in singles]
    return found


def with_stranded(units: Candidates, elsewhere: Elsewhere) -> list[EvictionUnit]:
    """Return the units with those of their pods that fit no other node."""
    return [
        msgspec.structs.replace(
            unit,
            stranded=frozenset(
                one.pod.metadata.uid for one in unit.pods if elsewhere.stranded((one,))
            ),
        )
        for unit in units
    ]


class Freed:
    """The capacity that evictions free, by leaf: resources, and leaves that the pods blocked."""

    def __init__(
        self,
        where: Mapping[str, int],
        resources: tuple[str, ...],
        blocks: Conflicts,
        size: int,
        counted: Mapping[str, Mapping[str, int]],
    ) -> None:
        self._where = where
        self._resources = resources
        self._blocks = blocks
        self._size = size
        self._counted = counted

    def counted(self, pods: Iterable[Placed]) -> dict[str, dict[int, int]]:
        """Return how many of these pods count in each set of each rule between members."""
        found: dict[str, dict[int, int]] = {}
        for one in pods:
            for rule, number in self._counted.get(one.pod.metadata.uid, {}).items():
                sets = found.setdefault(rule, {})
                sets[number] = sets.get(number, 0) + 1
        return found

    def by(self, pods: Iterable[Placed]) -> dict[int, tuple[int, ...]]:
        """Return the amounts that these pods free on each leaf."""
        width = len(self._resources) + bool(self._blocks)
        found: dict[int, list[int]] = {}
        for one in pods:
            if one.node in self._where:
                amounts = found.setdefault(self._where[one.node], [0] * width)
                # A host port is a resource of which a pod that uses it has one.
                ports = {port_name(port) for port in one.shape.host_ports}
                for at, resource in enumerate(self._resources):
                    is_counted = resource == PODS or resource in ports
                    amounts[at] += 1 if is_counted else one.requests.get(resource, 0)
            for leaf in self._blocks.get(one.pod.metadata.uid, ()):
                found.setdefault(leaf, [0] * width)[-1] += self._size
        return {leaf: tuple(amounts) for leaf, amounts in found.items()}


def candidates_of(
    units: Candidates,
    freed_by: Freed,
    budgets: Sequence[PodDisruptionBudget],
) -> tuple[list[Candidate], list[tuple[Placed, ...]], tuple[ElasticGroup, ...]]:
    """Return the candidates for the solver, with the pods behind each, and which are an elastic
    group's.
    """
    made: list[Candidate] = []
    pods: list[tuple[Placed, ...]] = []
    by_signature: dict[_Like, list[Placed]] = {}
    for unit in units:
        freed, counts = freed_by.by(unit.pods), freed_by.counted(unit.pods)
        if not freed and not counts:
            continue
        if unit.key and not unit.surplus:
            covered = _covered(unit.pods, budgets)
            number = len(unit.pods)
            made.append(
                Candidate(
                    unit.key,
                    unit.priority,
                    number,
                    freed,
                    budgets=covered,
                    counted=counts,
                    stranded=len(unit.stranded),
                )
            )
            pods.append(unit.pods)
            continue
        for one in unit.pods:
            by_signature.setdefault(_like(unit, one, freed_by, budgets), []).append(one)
    numbers: dict[str, list[int]] = {}
    for like, singles in by_signature.items():
        # The pod that has run for the shortest time is evicted first.
        singles.sort(key=lambda one: one.pod.key)
        singles.sort(key=lambda one: one.pod.status.start_time or "~", reverse=True)
        if like.key:
            numbers.setdefault(like.key, []).append(len(made))
        made.append(like.candidate(singles))
        pods.append(tuple(singles))
    surplus = {unit.key: unit.surplus for unit in units if unit.surplus}
    elastic = tuple(ElasticGroup(tuple(own), surplus[key]) for key, own in numbers.items())
    return made, pods, elastic


class _Like(msgspec.Struct, frozen=True):
    """The properties that single pods share which may be evicted one by one; `key` is that of their
    elastic group.
    """

    key: str
    node: str
    priority: int
    freed: tuple[tuple[int, tuple[int, ...]], ...]
    counted: tuple[tuple[str, tuple[int, ...]], ...]
    budgets: tuple[int, ...]
    is_stranded: bool

    def candidate(self, singles: Sequence[Placed]) -> Candidate:
        """Return the candidate that represents `count` equal units."""
        first, others = singles[0].pod.key, len(singles) - 1
        return Candidate(
            f"{first} and {others} others" if others else first,
            self.priority,
            1,
            dict(self.freed),
            single=True,
            count=len(singles),
            budgets=dict.fromkeys(self.budgets, 1),
            counted={rule: dict.fromkeys(sets, 1) for rule, sets in self.counted},
            stranded=int(self.is_stranded),
        )


def _like(
    unit: EvictionUnit, one: Placed, freed_by: Freed, budgets: Sequence[PodDisruptionBudget]
) -> _Like:
    """Return the kind of a single pod."""
    return _Like(
        unit.key,
        one.node,
        unit.priority,
        tuple(freed_by.by((one,)).items()),
        tuple((rule, tuple(sets)) for rule, sets in freed_by.counted((one,)).items()),
        tuple(sorted(_covered((one,), budgets))),
        one.pod.metadata.uid in unit.stranded,
    )


def violations(victims: Iterable[Placed], budgets: Sequence[PodDisruptionBudget]) -> int:
    """Return how many victims violate a budget.

    kube-scheduler: a victim that violates a budget uses up no budget after it.
    """
    left = [budget.status.disruptions_allowed for budget in budgets]
    count = 0
    for victim in victims:
        for number in _covered((victim,), budgets):
            left[number] -= 1
            if left[number] < 0:
                count += 1
                break
    return count


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
