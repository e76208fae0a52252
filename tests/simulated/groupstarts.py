"""Rules for the start of a group: its existing and bound members, by the server's history.

A group with a stated size starts when that many members exist. Afterwards single members are
replaced: only the first bind is checked. A group that was complete once is not released when it is
incomplete later.
"""

from dataclasses import dataclass, field
from math import inf

from tests.simulated.groupcapacity import POD_GROUP
from tests.simulated.history import Object


@dataclass
class _Group:
    """The members of a group; `complete_until` is the last time at which enough of them existed."""

    size: int = 0
    sized_at: float = inf
    present: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)
    complete_until: float = -inf
    was_whole: bool = False

    @property
    def is_complete(self) -> bool:
        return len(self.present) >= self.size

    @property
    def is_whole(self) -> bool:
        return 0 < self.size <= len(self.bound)


class GroupStarts:
    """Follow all groups by name."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def take(self, kind: str, verb: str, obj: Object, now: float) -> None:
        """Apply one change of a `Pod` or a `PodGroup`; ignore others."""
        meta = obj["metadata"]
        if kind == "PodGroup":
            one = self._groups.setdefault(meta["name"], _Group())
            size = 0 if verb == "DELETED" else obj["spec"].get("minMember", 0)
            if size != one.size:
                one.size, one.sized_at = size, now
        elif kind == "Pod" and (group := (meta.get("labels") or {}).get(POD_GROUP)):
            one = self._groups.setdefault(group, _Group())
            was_complete = one.is_complete
            is_over = obj.get("status", {}).get("phase") in ("Succeeded", "Failed")
            is_there = verb != "DELETED" and not is_over and "deletionTimestamp" not in meta
            _put(one.present, meta["uid"], is_there=is_there)
            _put(one.bound, meta["uid"], is_there=is_there and bool(obj["spec"].get("nodeName")))
            one.was_whole = bool(one.present) and (one.was_whole or one.is_whole)
            if was_complete and not one.is_complete:
                one.complete_until = now

    def was_whole(self, pod: Object) -> bool:
        """Return whether a pod's group was complete at any time since it last had no pod."""
        one = self._groups.get((pod["metadata"].get("labels") or {}).get(POD_GROUP, ""))
        return one is not None and one.was_whole

    def short(self, pod: Object, known_until: float) -> str:
        """Return how many members are missing if a pod is the first of its group to be bound, or
        ''.
        """
        group = (pod["metadata"].get("labels") or {}).get(POD_GROUP, "")
        one = self._groups.get(group)
        if one is None or one.is_complete or one.bound - {pod["metadata"]["uid"]}:
            return ""
        if max(one.complete_until, one.sized_at) >= known_until:
            return ""  # enough of them as far as the sender can know
        return f"{group} begins with {len(one.present)} of {one.size}"


def _put(uids: set[str], uid: str, *, is_there: bool) -> None:
    (uids.add if is_there else uids.discard)(uid)
