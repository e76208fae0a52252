"""The present description of a group: objects → `GroupSpec` or an error; cached per object
version.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.base.errors import ObjectError
from scheduler.framework.handle import Handle
from scheduler.groups.description.members import GroupMembers
from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.sources import composite, configmap, kueue
from scheduler.groups.sources import registry as sources
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed


class Descriptions:
    """Reads the objects that groups are described by."""

    def __init__(self, handle: Handle, members: GroupMembers) -> None:
        self._handle = handle
        self._members = members
        self._read: dict[str, tuple[Any, GroupSpec | ObjectError]] = {}
        # By group of groups, since its last change: the specs of all groups in it, and the
        # resulting spec.
        self._trees: dict[
            str, tuple[int, list[GroupSpec | ObjectError], GroupSpec | ObjectError]
        ] = {}

    def group(self, key: str) -> GroupSpec | None:
        """Return a group's specification, None without an object; ObjectError for an invalid
        object.

        The specification of a group of groups contains those of its groups.
        """
        if key.startswith(kueue.PREFIX):
            return self._by_pods(key)
        found = self._members.described_by(key)
        if found and found[0][0] == composite.KIND:
            return self._tree(key)
        self._trees.pop(key, None)
        return self._alone(key, found)

    def check(self, key: str, pods: Sequence[Pod]) -> None:
        """Raise ObjectError if the members of a group described by its pods state different
        values.
        """
        if pods and key.startswith(kueue.PREFIX):
            kueue.check(pods)

    def _by_pods(self, key: str) -> GroupSpec | None:
        """Return the specification of a group from one of its pods; `check` compares all of
        them.
        """
        bound = self._members.bound(key)
        pod = self._handle.waiting_member(key) or next((one.pod for one in bound), None)
        confirmed = sum(not one.assumed for one in bound)
        return None if pod is None else kueue.read(pod, confirmed)

    def _is_described(self, key: str) -> bool:
        return key.startswith(kueue.PREFIX) or bool(self._members.described_by(key))

    def _alone(self, key: str, found: Sequence[tuple[str, Any]]) -> GroupSpec | None:
        if not found:
            self._read.pop(key, None)
            return None
        kind, source = found[0]
        if len(found) > 1 and kind == found[1][0] == configmap.KIND:
            maps = (obj.metadata for kind, obj in found if kind == configmap.KIND)
            names = ", ".join(f"{meta.namespace}/{meta.name}" for meta in maps)
            raise ObjectError(f"the ConfigMaps {names} describe the same group")
        known = self._read.get(key)
        if known is None or known[0] is not source:
            known = self._read[key] = (source, sources.read(kind, source))
        if isinstance(known[1], ObjectError):
            raise known[1]
        return known[1]

    def _tree(self, key: str) -> GroupSpec:
        """Return the specification of a group of groups; it is built again when any of them
        changed.
        """
        known, changed = self._trees.get(key), self._members.last_change(key)
        if known is None or known[0] != changed:
            keys = self._members.every(key, composite.MOST_GROUPS)
            is_too_large = len(keys) > composite.MOST_GROUPS
            # Descriptions of more groups than this are not read.
            specs = {each: self._own(each) for each in (keys[:1] if is_too_large else keys)}
            own = list(specs.values())
            if known is None or is_too_large or not _are_same(known[1], own):
                made = self._made(key, specs, is_too_large=is_too_large)
            else:
                made = known[2]
            known = self._trees[key] = (changed, [] if is_too_large else own, made)
        if isinstance(known[2], ObjectError):
            raise known[2]
        return known[2]

    def _made(
        self, key: str, specs: Mapping[str, GroupSpec | ObjectError], *, is_too_large: bool
    ) -> GroupSpec | ObjectError:
        good: dict[str, GroupSpec] = {}
        for each, spec in specs.items():
            if isinstance(spec, ObjectError):
                return spec
            good[each] = spec
        if is_too_large:
            return ObjectError(f"{good[key].source}: {composite.TOO_MANY}")
        inside = {each: self._members.inside(each) for each in specs}
        try:
            return composite.tree(key, good, inside)
        except ObjectError as error:
            return ObjectError(f"{good[key].source}: {error.message}")

    def _own(self, key: str) -> GroupSpec | ObjectError:
        """Return a group's own specification, without the groups in it."""
        try:
            spec = self._alone(key, self._members.described_by(key))
        except ObjectError as error:
            return error
        return ObjectError(self.missing(key)) if spec is None else spec

    def missing(self, key: str) -> str:
        """Return the message for a group without a describing object, among the kinds that are
        listed.
        """
        return sources.missing(key, lambda kind: self._handle.objects(kind).is_denied)

    def unit_key(self, pod: Pod) -> str:
        """Return the key of a member's eviction unit: its group, or the topmost group that is
        evicted whole.
        """
        return self.unit_above(self._members.own_group_of(pod))

    def is_in(self, key: str, root: str) -> bool:
        """Return whether a group is `root`, or in it."""
        return self._members.root(key) == root

    def unit_above(self, key: str) -> str:
        """Return the topmost group evicted only as a whole, of a group and those around it; else
        the group itself.
        """
        if self._members.root(key) == key:
            return key
        for each in reversed(self._members.above(key)):
            if not self._members.described_by(each):
                continue
            spec = self._own(each)
            if isinstance(spec, ObjectError) or spec.is_evicted_together:
                return each
        return key

    def size_of(self, key: str) -> int:
        """Return the size of a group, 0 if it is not known."""
        spec = self._readable(key)
        return 0 if spec is None else spec.size

    def whole_size_of(self, key: str) -> int:
        """Return how many members a group has when it is whole, also of one that goes on with
        fewer.
        """
        if not key.startswith(kueue.PREFIX):
            return self.size_of(key)
        placed = self._members.bound(key)
        try:
            return kueue.read(placed[0].pod).size if placed else 0
        except ObjectError:
            return 0

    def unit_of(self, key: str, members: Sequence[Placed]) -> tuple[bool, int]:
        """Return whether a group's members are evicted only together, and the priority of that
        unit.

        A group that no object describes counts as single pods. A group whose object is invalid is
        evicted as a whole. A priority that users may write counts only up to that of the members.
        """
        lowest = min((one.pod.priority for one in members), default=0)
        if not self._is_described(key):
            return False, lowest
        spec = self._readable(key)
        if spec is None:
            return True, lowest
        return spec.is_evicted_together, spec.effective_priority(lowest)

    def surplus_of(self, key: str, members: Sequence[Placed]) -> int:
        """Return how many of these members can be evicted without breaking the group's minimum, 0
        for none.

        Members whose eviction is in progress do not count as present.
        """
        beyond = self.beyond_need(key, len(members))
        evicted = self._handle.evicted() if beyond else ()
        return max(0, beyond - sum(one.pod.metadata.uid in evicted for one in members))

    def beyond_need(self, key: str, members: int) -> int:
        """Return how many of these members a group that may shrink does not need."""
        spec = self._readable(key)
        if spec is None or not spec.may_shrink or spec.classes:
            return 0  # its numbers do not state which members of a class are surplus
        return max(0, members - spec.size)

    def spec_of(self, key: str) -> GroupSpec | None:
        """Return a group's specification, None if it is unknown or invalid."""
        return self._readable(key)

    def _readable(self, key: str) -> GroupSpec | None:
        try:
            return self.group(key)
        except ObjectError:
            return None


def _are_same(one: Sequence[object], other: Sequence[object]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
