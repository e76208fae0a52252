"""Conditions of the subgroups of a group: each its own, where it changed.

A placed subgroup is reported as placed, a waiting one with its root's reason. If the root has its
minimum, a subgroup that is left out is reported with that reason. Called by `statuswriter`, which
reports the root.
"""

from collections import Counter
from collections.abc import Sequence

from scheduler.base import reasons
from scheduler.base.sweep import Sweep
from scheduler.framework.groups import GroupStage, GroupWrite, title
from scheduler.groups.description import quorum
from scheduler.groups.description.members import GroupMembers
from scheduler.groups.description.spec import GroupNode
from scheduler.groups.sources import registry as sources
from scheduler.groups.status.announcing import SEEN_BY_THEN_S, WAITS, condition_effects
from scheduler.groups.status.lifecycle import GroupRecord
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed


class InnerGroupWriter:
    """Writes the conditions of subgroups."""

    def __init__(self, members: GroupMembers) -> None:
        self._members = members
        # By group: the condition last sent, for which version of the object, and when; the watch
        # may not show it yet.
        self._reported: dict[str, tuple[str, float]] = {}
        # By group: the uid of the object that was reported as placed; this is final, and may still
        # be in flight.
        self._final: dict[str, str] = {}
        self._reported_sweep, self._final_sweep = Sweep(), Sweep()

    def writes(
        self,
        root: GroupNode,
        stage: GroupStage,
        record: GroupRecord,
        bound: Sequence[Placed],
        finished: Sequence[Pod],
        now: float,
    ) -> list[GroupWrite]:
        """Return the requests that report a stage of a root to all groups in it; finished members
        count.
        """
        done = Counter(map(sources.group_of, finished))
        there = done + Counter(sources.group_of(one.pod) for one in bound)
        confirmed = done + Counter(sources.group_of(one.pod) for one in bound if not one.assumed)
        found: list[GroupWrite] = []
        self._reported_sweep.clear(self._reported, self._is_there)
        self._final_sweep.clear(self._final, self._is_there)
        for node in list(root.every())[1:]:
            if quorum.is_in(node, confirmed):
                if stage in (GroupStage.BOUND, GroupStage.CHANGED):
                    found += self._say(node, "True", reasons.SCHEDULED, "", now)
            elif not any(there[leaf.key] for leaf in node.leaves()):
                found += self._waits(root, node, stage, record, there, now)
        return found

    def _is_there(self, key: str) -> bool:
        return bool(self._members.described_by(key))

    def _waits(
        self,
        root: GroupNode,
        node: GroupNode,
        stage: GroupStage,
        record: GroupRecord,
        there: Counter[str],
        now: float,
    ) -> list[GroupWrite]:
        """Report why a subgroup is not placed; `there` is the number of bound pods by group."""
        if stage in WAITS or (stage is GroupStage.ON_HOLD and record.message):
            reason = reasons.SCHEDULER_ERROR if record.is_error else reasons.UNSCHEDULABLE
            return self._say(node, "False", reason, record.message, now)
        if stage is GroupStage.BOUND:
            # A bound pod may replace another one, while the root lacks whole groups.
            says = "has its minimum without this one"
            if not quorum.is_in(root, there):
                says = f"is not complete: {quorum.lacking(root, there)}"
            text = f"the group {title(root.key)} {says}"
            return self._say(node, "False", reasons.UNSCHEDULABLE, text, now)
        return []

    def _say(
        self, node: GroupNode, status: str, reason: str, message: str, now: float
    ) -> list[GroupWrite]:
        for kind, obj in self._members.described_by(node.key)[:1]:
            if status == "True":
                self._final[node.key] = obj.metadata.uid
            elif self._final.get(node.key) == obj.metadata.uid:
                return []
            calls = condition_effects(kind, obj, status, reason, message, now)
            words = f"{obj.metadata.resource_version} {status} {message}"
            before, since = self._reported.get(node.key, ("", 0.0))
            if not calls or (before == words and now - since < SEEN_BY_THEN_S):
                return []
            self._reported[node.key] = (words, now)
            return calls
        self._reported.pop(node.key, None)
        self._final.pop(node.key, None)
        return []
