"""`GroupHistory`: the members that a group still needs, by those that have finished and those that
were lost.

Everything follows from API objects, so a restart changes nothing. A member that finished counts
towards the minimum. A group that was complete and has running members replaces lost members as
capacity allows, once as many exist as its minimum. When no member runs any more, the remaining ones
start together.

A failed member counts as finished when no controller replaces it. Finished pods without a
controller belong to an earlier run if no member is on a node and as many wait as the whole group
needs.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from scheduler.framework.handle import Handle
from scheduler.groups.description import past, quorum
from scheduler.groups.description.members import GroupMembers
from scheduler.groups.description.spec import LARGEST_GROUP, GroupNode, GroupSpec
from scheduler.groups.sources import registry as sources
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed

FAILED = "Failed"
_Member = TypeVar("_Member")


class GroupHistory:
    """Derives from objects which members of a group have finished or were lost."""

    def __init__(self, handle: Handle, members: GroupMembers) -> None:
        self._handle = handle
        self._members = members

    def completed(self, spec: GroupSpec, key: str, waiting: Collection[Pod]) -> list[Pod]:
        """Return the finished members that count towards a group with these waiting members."""
        finished = self._members.finished(key)
        if not finished:
            return []
        is_new_run = not self._members.bound(key) and _is_whole(spec, waiting)
        return [pod for pod in finished if _counts(pod, is_new_run=is_new_run)]

    def done(self, spec: GroupSpec, key: str) -> list[Pod]:
        """Return the finished members that count in addition to the waiting ones."""
        return self.completed(spec, key, self._handle.group_waiting(key).values())

    def current_spec(
        self, key: str, spec: GroupSpec, bound: Sequence[Placed], waiting: Sequence[Pod]
    ) -> tuple[GroupSpec, GroupSpec]:
        """Return the group as these waiting members may join it now, and the group with its
        unchanged minimum.

        Both without the members that have finished. `spec` is what the objects request, `bound`
        are the bound members that stay.
        """
        completed = self.completed(spec, key, waiting)
        runs = self._running(bound)
        if spec.tree is not None:
            tree = _Tree(
                self.was_whole,
                _by_group((one.pod, one) for one in runs),
                _by_group((pod, pod) for pod in completed),
                _by_group((pod, pod) for pod in waiting),
            )
            now, whole = (tree.node(spec.tree, joins=joins) for joins in (True, False))
            return replace(spec, tree=now), replace(spec, tree=whole)
        left = _without(spec, completed) if completed else spec
        # kube-scheduler: lost members wait until as many exist as the minimum, even if other
        # members run.
        there = len(bound) + len(completed) + len(waiting)
        if runs and there >= spec.size and self.was_whole(key, spec.size, runs, completed):
            return _joined(left, [one.pod for one in bound]), left
        return left, left

    def _running(self, bound: Sequence[Placed]) -> list[Placed]:
        """Return the members that are not being evicted."""
        evicted: Collection[str] = self._handle.evicted() if bound else ()
        return [
            one
            for one in bound
            if one.pod.metadata.uid not in evicted and not past.is_marked(one.pod)
        ]

    def was_whole(
        self, key: str, size: int, runs: Sequence[Placed], completed: Sequence[Pod]
    ) -> bool:
        """Return whether the group once had its minimum: as stated by its object, by its pods, or
        by their number.
        """
        confirmed = sum(not one.assumed for one in runs)
        if confirmed + len(completed) >= size:
            return True
        pods = (*(one.pod for one in runs), *completed)
        return past.was_whole(pods, self._members.described_by(key))


class _Tree(msgspec.Struct, frozen=True):
    """The members of a tree of groups, by the key of their group."""

    was_whole: Callable[[str, int, Sequence[Placed], Sequence[Pod]], bool]
    runs: Mapping[str, Sequence[Placed]]
    finished: Mapping[str, Sequence[Pod]]
    waiting: Mapping[str, Sequence[Pod]]

    def node(self, node: GroupNode, *, joins: bool) -> GroupNode:
        """Return a group whose minimum is reduced by its finished members.

        A finished subgroup without a waiting member is left out, and reduces the minimum of the
        group around it. With `joins`, the minimum of a group that was complete once is at most the
        number of its running members, so that single members can join it.
        """
        runs, finished = self.runs.get(node.key, ()), self.finished.get(node.key, ())
        if not node.is_composite:
            left = max(0, node.least - len(finished))
            there = len(runs) + len(finished) + len(self.waiting.get(node.key, ()))
            is_there = there >= node.least
            if joins and runs and is_there and self.was_whole(node.key, node.least, runs, finished):
                left = min(left, len(runs))
            return replace(node, least=left)
        inner = [(one, self.node(one, joins=joins)) for one in node.groups]
        kept = tuple(now for one, now in inner if not self._is_done(one, now))
        left = max(0, node.least - (len(inner) - len(kept)))
        running = [one for one, _ in inner if any(self.runs.get(leaf.key) for leaf in one.leaves())]
        if joins and running and self.was_whole(node.key, LARGEST_GROUP + 1, (), ()):
            left = min(left, len(running))
        return replace(node, least=left, groups=kept)

    def _is_done(self, node: GroupNode, now: GroupNode) -> bool:
        leaves = [leaf.key for leaf in node.leaves()]
        is_here = any(self.runs.get(key) or self.waiting.get(key) for key in leaves)
        return now.least == 0 and not is_here and any(self.finished.get(key) for key in leaves)


def _is_whole(spec: GroupSpec, waiting: Collection[Pod]) -> bool:
    """Return whether these members are enough for the whole group, in each group of a tree."""
    if spec.tree is None or len(waiting) < spec.size:
        return len(waiting) >= spec.size
    return quorum.is_in(spec.tree, Counter(sources.group_of(pod) for pod in waiting))


def _by_group(members: Iterable[tuple[Pod, _Member]]) -> dict[str, list[_Member]]:
    found: dict[str, list[_Member]] = {}
    for pod, one in members:
        found.setdefault(sources.group_of(pod), []).append(one)
    return found


def _counts(pod: Pod, *, is_new_run: bool) -> bool:
    """Return whether a finished pod counts towards the minimum of its group."""
    is_owned = any(owner.controller for owner in pod.metadata.owner_references)
    if is_owned:
        return pod.status.phase != FAILED
    return not is_new_run


def _without(spec: GroupSpec, completed: Sequence[Pod]) -> GroupSpec:
    """Return a group without its finished members. If the minimum is met, any waiting member may
    start.
    """
    left = max(0, spec.size - len(completed))
    classes = None if spec.classes is None else spec.classes.less(completed)
    return replace(spec, size=left, is_minimum=spec.is_minimum or not left, classes=classes)


def _joined(spec: GroupSpec, bound: Sequence[Pod]) -> GroupSpec:
    """Return the spec for further members of a group that was complete once: its minimum is met,
    its size is the number of bound members.
    """
    classes = None if spec.classes is None else spec.classes.at_most(bound)
    size = min(spec.size, len(bound))
    return replace(spec, size=size, is_minimum=True, classes=classes, needs={})
