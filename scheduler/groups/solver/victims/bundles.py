"""Bundle single pods of one leaf such that each bundle frees capacity for one more member.

If a member needs 8 GPUs and a leaf runs 8 pods of 1 GPU, fewer than 8 evictions free nothing, so
the 8 pods are one decision. Without bundles the relaxation of the victim search credits each pod
with 1/8 of a member; for 500 nodes it then neither finds nor proves an answer in its time.
"""

from collections import Counter
from collections.abc import Iterable

import msgspec
import numpy as np

from scheduler.groups.problem.answer import SolvedStage
from scheduler.groups.problem.instance import Candidate, ElasticGroup, PreemptionInstance
from scheduler.groups.solver.victims.freed import Choice, EvictionCapacity


class Bundles:
    """A problem whose candidates are bundles, and the way back to the original candidates."""

    def __init__(self, original: PreemptionInstance) -> None:
        made: list[Candidate] = []
        # Per bundle: the index of its candidate in the original problem, and its evictions.
        self._origin: list[tuple[int, int]] = []
        capacity = EvictionCapacity(original)
        many = Counter(leaf for one in original.candidates for leaf in one.freed)
        elastic = {index for group in original.elastic for index in group.candidates}
        place: dict[int, int] = {}
        for index, one in enumerate(original.candidates):
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
            for group in original.elastic
        )
        self.problem = msgspec.structs.replace(
            original, candidates=tuple(made), elastic=tuple(groups)
        )
        # Priorities, and stranded pods, of candidates without a bundle only: evicting these frees
        # capacity for no member.
        self._dropped = {one.priority for one in original.candidates}
        self._dropped -= {one.priority for one in made}
        self._drops_stranded = _any_stranded(original.candidates) and not _any_stranded(made)

    def unpacked(self, evicted: Choice) -> dict[int, int]:
        """Return the evictions of the original candidates."""
        found: Counter[int] = Counter()
        for number, times in evicted.items():
            index, size = self._origin[number]
            found[index] += size * times
        return dict(found)

    def all_stages(self, stages: Iterable[SolvedStage]) -> tuple[SolvedStage, ...]:
        """Return the stages of the original problem: 0 pods for each priority without bundles, and
        0 stranded pods if no bundle has any.
        """
        pods = [SolvedStage(str(one), "pods", 0, 0, "feasibility") for one in self._dropped]
        others: list[SolvedStage] = []
        for stage in stages:
            (pods if stage.measure == "pods" else others).append(stage)
        pods.sort(key=lambda stage: -int(stage.level))
        if self._drops_stranded:
            pods.append(SolvedStage("", "stranded", 0, 0, "feasibility"))
        first = sum(stage.measure == "violations" for stage in others)
        return (*others[:first], *pods, *others[first:])


def _any_stranded(candidates: Iterable[Candidate]) -> bool:
    return any(one.stranded for one in candidates)


def _sizes(capacity: EvictionCapacity, one: Candidate, leaf: int) -> list[int] | None:
    """Return how many evictions free each further slot of a leaf; None if sizes decrease.

    A search that counts bundles takes the smallest first, so sizes must not decrease.
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
    """Return a candidate of `count` bundles with `size` evictions each."""
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
