"""`RecordStore`: the state of groups in memory between attempts, each for one object and one set of
pods.

A record belongs to the object that currently describes the group, by its uid, and to pods of which
at least one still exists. A recreated object, or new pods after all old ones are gone, start with
an empty record: no report about the old group appears on the new one.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from scheduler.base.sweep import Sweep
from scheduler.groups.cycle.states import FAILED
from scheduler.groups.status.lifecycle import GroupRecord


class _Kept(msgspec.Struct, eq=False):
    """A record, the uid of the object and the uids of the pods that it is about."""

    uid: str
    pods: frozenset[str]
    record: GroupRecord


class RecordStore:
    """Records by the key of the group.

    `uid_of` returns the uid of the object that describes a group, '' without one; `pods_of` the
    uids of its members, waiting and placed.
    """

    def __init__(
        self, uid_of: Callable[[str], str], pods_of: Callable[[str], Iterable[str]]
    ) -> None:
        self._uid_of = uid_of
        self._pods_of = pods_of
        self._kept: dict[str, _Kept] = {}
        self._sweep = Sweep()

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def get(self, key: str) -> GroupRecord | None:
        """Return the record of the group as its object currently describes it, or None."""
        kept = self._kept.get(key)
        return None if kept is None or kept.uid != self._uid_of(key) else kept.record

    def of(self, key: str) -> GroupRecord:
        """Return the record of a group, an empty one if it is about another object or about other
        pods.
        """
        kept, uid, pods = self._kept.get(key), self._uid_of(key), frozenset(self._pods_of(key))
        if kept is None or kept.uid != uid or (pods and kept.pods.isdisjoint(pods) and kept.pods):
            kept = self._kept[key] = _Kept(uid, pods, GroupRecord())
        elif pods:
            kept.pods = pods
        return kept.record

    def hold(self, key: str, message: str) -> None:
        """Keep why a group cannot be planned at all."""
        record = self.of(key)
        record.status, record.message = FAILED, message

    def sweep(self, is_there: Callable[[str], bool]) -> None:
        """Drop records of groups that have neither an object nor a pod, if there are many
        records.
        """
        self._sweep.clear(self._kept, is_there)
