"""Single pods of one leaf, bundled to the numbers that free capacity for one more member.

Eight pods of one GPU in the way of a member with eight are one decision: fewer evictions than eight
free nothing. Without bundles the relaxation of the victim search assumes that each of the eight
frees a member's place, and neither finds nor proves the answer for 500 nodes within its time.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec
import numpy as np

from scheduler.groups.problem.answer import SolvedStage
from scheduler.groups.problem.instance import Candidate, ElasticGroup, PreemptionInstance
from scheduler.groups.solver.victims.freed import Choice, EvictionCapacity


class Bundles:
    """A problem with bundles for candidates, and what each stands for in the problem as asked."""

    def __init__(self, asked: PreemptionInstance) -> None:
        made: list[Candidate] = []
        # Per candidate: its index in the problem as asked, and the evictions of one bundle.
        self._origin: list[tuple[int, int]] = []
        capacity = EvictionCapacity(asked)
        many = Counter(leaf for one in asked.candidates for leaf in one.freed)
        elastic = {index for group in asked.elastic for index in group.candidates}
        place: dict[int, int] = {}
        for index, one in enumerate(asked.candidates):
            place[index] = len(made)
            sizes = None
            if one.count > 1 and len(one.freed) == 1 and not one.counted and index not in elastic:
                (leaf,) = one.freed
                sizes = _sizes(capacity, one, leaf) if many[leaf] == 1 else None
            for size, count in Counter(sizes).items() if sizes is not None else [(1, one.count)]:
                made.append(_bundle(one, size, count))
                self._origin.append((index, size))
        groups = (
            ElasticGroup(tuple(place[index] for index in group.candidates), group.surplus)
            for group in asked.elastic
        )
        self.problem = msgspec.structs.replace(asked, candidates=tuple(made), elastic=tuple(groups))
        # Candidates whose evictions free capacity for no member have no bundle.
        self._dropped = {one.priority for one in asked.candidates}
        self._dropped -= {one.priority for one in made}

    def unpacked(self, evicted: Choice) -> dict[int, int]:
        """Return evictions in the problem as asked."""
        found: Counter[int] = Counter()
        for number, times in evicted.items():
            index, size = self._origin[number]
            found[index] += size * times
        return dict(found)

    def all_stages(self, stages: Iterable[SolvedStage]) -> tuple[SolvedStage, ...]:
        """Return the stages of the problem as asked: zero pods of each priority without bundles."""
        pods = [SolvedStage(str(one), "pods", 0, 0, "feasibility") for one in self._dropped]
        others: list[SolvedStage] = []
        for stage in stages:
            (pods if stage.measure == "pods" else others).append(stage)
        pods.sort(key=lambda stage: -int(stage.level))
        first = sum(stage.measure == "violations" for stage in others)
        return (*others[:first], *pods, *others[first:])


def _sizes(capacity: EvictionCapacity, one: Candidate, leaf: int) -> list[int] | None:
    """Return how many evictions free each further place on a leaf, None where later places take
    fewer.

    A search that counts bundles singly takes the smallest first, so sizes must not decrease.
    """
    times = np.arange(one.count + 1)
    freed = np.array(one.freed[leaf], dtype=np.int64)
    slots = capacity.slots_at(leaf, capacity.free[leaf] + times[:, None] * freed)
    gained = np.diff(slots)
    steps = np.flatnonzero(gained) + 1
    sizes = np.diff(steps, prepend=0)
    if (gained > 1).any() or (np.diff(sizes) < 0).any():
        return None
    found: list[int] = sizes.tolist()
    return found


def _bundle(one: Candidate, size: int, count: int) -> Candidate:
    """Return `count` candidates of `size` evictions each as one."""
    if size == 1:
        return msgspec.structs.replace(one, count=count)
    return msgspec.structs.replace(
        one,
        pods=size * one.pods,
        count=count,
        groups=size * one.groups,
        stranded=size * one.stranded,
        freed={leaf: tuple(size * each for each in free) for leaf, free in one.freed.items()},
        budgets={number: size * pods for number, pods in one.budgets.items()},
    )
