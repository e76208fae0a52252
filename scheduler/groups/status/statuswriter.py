"""The state of groups in memory, written to their objects, and reported by `simulate`."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from scheduler.base import reasons
from scheduler.framework.groups import (
    GroupEvent,
    GroupReport,
    GroupStage,
    GroupWrite,
    MemberOrder,
    title,
)
from scheduler.groups.cycle.states import FAILED, PREEMPTED, PREEMPTING, STATUS_AFTER, WAITING
from scheduler.groups.description import past
from scheduler.groups.description.history import GroupHistory
from scheduler.groups.description.members import GroupMembers
from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.planning.planning import placements_of
from scheduler.groups.sources import configmap
from scheduler.groups.sources.configmap import BOUND
from scheduler.groups.sources.registry import BY_KIND, label_of
from scheduler.groups.status.announcing import StageReport, announce, bound_event, event, given_up
from scheduler.groups.status.innergroups import InnerGroupWriter
from scheduler.groups.status.lifecycle import (
    COMPLETED,
    DOES_NOT_FIT,
    LONGEST_MESSAGE,
    GroupRecord,
    began_at,
    labels,
    placed_on,
    proven,
    results,
    status_patch,
)
from scheduler.groups.status.records import RecordStore
from scheduler.groups.topology.placement import MemberPlacement, tree_of
from scheduler.groups.topology.tree import Topology
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed


class GroupStatusWriter:
    """Turns stages into statuses and requests."""

    def __init__(
        self,
        members: GroupMembers,
        records: RecordStore,
        specs: Callable[[str], GroupSpec | None],
        history: GroupHistory,
    ) -> None:
        self._members = members
        self._specs = specs
        self._history = history
        self._records = records
        self._inner_groups = InnerGroupWriter(members)

    def writes(self, key: str, stage: GroupStage, now: float) -> list[GroupWrite]:
        """Record a stage; return the writes and events for it."""
        record = self._records.of(key)
        if stage is GroupStage.REFUSED and record.status != FAILED:
            record.status = DOES_NOT_FIT if record.is_final else WAITING
        elif stage not in (GroupStage.ON_HOLD, GroupStage.REFUSED):
            record.status = STATUS_AFTER[stage]
        effects = self._status_effects(key, record, stage, now)
        found = self._members.described_by(key)[:1]
        for kind, obj in found:
            report = self._report(key, record, stage, now)
            if kind != configmap.KIND:
                effects += announce(kind, obj, report)
            elif stage is GroupStage.BOUND:
                effects.append(bound_event(kind, obj, report))
        return effects + self._inside(key, record, stage, now)

    def _inside(
        self, key: str, record: GroupRecord, stage: GroupStage, now: float
    ) -> list[GroupWrite]:
        """Return the writes and events of the subgroups."""
        spec = self._specs(key)
        if spec is None or spec.tree is None:
            return []
        bound, finished = self._members.bound(key), self._finished(key)
        return self._inner_groups.writes(spec.tree, stage, record, bound, finished, now)

    def _status_effects(
        self, key: str, record: GroupRecord, stage: GroupStage, now: float
    ) -> list[GroupWrite]:
        """Return the values that a stage sets in the ConfigMap of the group, and in those of its
        victims.
        """
        if stage is GroupStage.ON_HOLD:
            # An incomplete group has no fault to report.
            is_faulty = record.status == FAILED and bool(record.message)
            if is_faulty:
                return self._write(key, {"status": FAILED, "message": record.message})
            return self._start_anew(key)
        if stage is GroupStage.STARTED:
            record.began = now if record.began is None else record.began
            return self._start_anew(key)
        if stage is GroupStage.REFUSED:
            return self._write(key, {"status": FAILED, "message": record.message})
        if stage is GroupStage.RELEASED:
            return self._write(key, {"status": WAITING})
        if stage is GroupStage.DISSOLVED:
            return self._dissolved(key, record)
        if stage is GroupStage.PREEMPTING:
            return self._write(key, {"status": PREEMPTING, "message": record.message or None})
        if stage is GroupStage.BOUND:
            record.ended = now
            return self._bound(key, record, now)
        return []

    def _report(self, key: str, record: GroupRecord, stage: GroupStage, now: float) -> StageReport:
        bound, finished = self._members.bound(key), self._finished(key)
        return StageReport(stage, record, bound, self._sizes(key), now, finished)

    def _finished(self, key: str) -> list[Pod]:
        """Return the finished members that count."""
        spec = self._specs(key)
        return [] if spec is None else self._history.done(spec, key)

    def checked(self, key: str, size: int, now: float) -> list[GroupWrite]:
        """Compare the written status with the cluster: it may differ after a restart or a lost
        request.

        A complete group is reported with its valid placement, unless its members are being evicted.
        A group without any member keeps the last status: it has ended, or starts again when new
        members arrive.
        """
        bound = self._members.bound(key)
        found = self._members.described_by(key)
        data = (found[0][1].data or {}) if found and found[0][0] == configmap.KIND else {}
        known = self._records.get(key)
        if known is not None and known.status == PREEMPTED:
            if data.get("status") == PREEMPTED:
                return []
            return self._write(key, {"status": PREEMPTED, "preemptor": known.preemptor or None})
        if not size:  # an unreadable description: the reason is reported on its pods
            return []
        is_whole = size <= self.present(key) and not any(placed.assumed for placed in bound)
        if found and found[0][0] != configmap.KIND:
            # Pods that were created with a node were never scheduled: no report about that.
            if not all(past.bound_at(one.pod) for one in bound):
                return []
            record = self._records.of(key)
            record.status = BOUND if is_whole else record.status
            effects = announce(*found[0], self._report(key, record, GroupStage.CHANGED, now))
            return effects + (
                self._inside(key, record, GroupStage.CHANGED, now) if is_whole else []
            )
        if not is_whole or not bound:
            return self._in_part(key, bound, data)
        record = self._records.of(key)
        if data.get("status") != BOUND:
            return self._bound(key, record, now)
        tree = record.tree
        if tree is None:
            return []
        shown = placed_on(placements_of(tree, bound), None)
        if shown["placement"] == data.get("placement"):
            return []
        # A member was replaced: the times of the group's first placement stay, its proof does not.
        return self._write(key, shown)

    def _in_part(
        self, key: str, bound: Sequence[Placed], data: Mapping[str, str]
    ) -> list[GroupWrite]:
        """Return the write that sets a bound ConfigMap group to waiting when it lost members."""
        is_part = 0 < len(bound) and not any(placed.assumed for placed in bound)
        if not is_part or data.get("status") != BOUND:
            return []
        return self._write(key, {"status": WAITING})

    def _sizes(self, key: str) -> int:
        spec = self._specs(key)
        return 0 if spec is None else spec.size

    def present(self, key: str) -> int:
        """Return how many members are on nodes to stay or have finished."""
        return len(self._members.bound(key)) + len(self._finished(key))

    def status(self, key: str, size: int) -> str:
        """Return a group's status: bound with its minimum, else the result of its last attempt.

        A group without members on nodes has completed if its minimum has finished, or if its
        object records a placement and no attempt was made here.
        """
        bound = self._members.bound(key)
        if 0 < size <= self.present(key):
            return BOUND if bound else COMPLETED
        record = self._records.get(key)
        if record is not None and (record.retries or record.message or record.status != WAITING):
            return record.status
        has_ended = not bound and any(
            BY_KIND[kind].was_placed(obj) for kind, obj in self._members.described_by(key)
        )
        return COMPLETED if has_ended else WAITING

    def report(self, key: str, size: int) -> GroupReport:
        """Return the report about a group for `simulate`."""
        record = self._records.get(key) or GroupRecord()
        bound, tree = self._members.bound(key), record.tree
        namespace, _, name = title(key).partition("/")
        spec = self._specs(key)
        found = self._members.described_by(key)
        status = self.status(key, size)
        waits = status not in (BOUND, COMPLETED)
        proof = record.proof
        if status == BOUND and not record.is_whole and found and found[0][0] == configmap.KIND:
            proof = proven((found[0][1].data or {}).get("proof", "{}"))
        return GroupReport(
            namespace,
            name,
            status,
            size,
            tree_of(_placements(tree, bound)),
            proof.optimal,
            proof.objective,
            proof.bound,
            record.solver_s,
            tuple(
                {"namespace": one.pod.metadata.namespace, "name": one.pod.metadata.name}
                for one in record.victims
            ),
            record.conflict if waits else (),
            label_of(key, found),
            size,
            None if spec is None or spec.is_minimum else size,
            record.message if waits else "",
            proof.terms,
            record.would_fit if waits else 0,
            _orders_of(record, bound),
            finished=len(self._finished(key)),
        )

    def _bound(self, key: str, record: GroupRecord, now: float) -> list[GroupWrite]:
        placed = self._members.bound(key)
        placements = placements_of(record.tree, placed) if record.tree is not None else []
        record.began = began_at(placed, now if record.began is None else record.began)
        record.ended = now if record.ended is None else record.ended
        record.status = BOUND
        calls = self._write(key, results(placements, record))
        if self._members.config_maps(key):  # the pods of other sources are not ours to label
            calls += labels(placed, placements, record.retries)
        for config_map in self._members.evicted_by(title(key)):
            calls += status_patch(config_map, {"preemptor": None})
        return calls

    def _start_anew(self, key: str) -> list[GroupWrite]:
        """Clear the bound status if members wait and none is bound: the group starts again."""
        maps = self._members.config_maps(key)
        is_reported = any((one.data or {}).get("status") == BOUND for one in maps)
        if not is_reported or self._members.placed(key):
            return []
        return self._write(key, {"status": WAITING})

    def spared(self, victims: Sequence[Placed]) -> None:
        """Report groups as bound again whose eviction has failed."""
        for key in dict.fromkeys(self._members.group_of(one.pod) for one in victims):
            record = self._records.get(key)
            if record is not None and record.status == PREEMPTED:
                record.status = WAITING
                self._members.changed.add(key)

    def _dissolved(self, key: str, record: GroupRecord) -> list[GroupWrite]:
        """Report on the group, before its bound members are released, that they are and why."""
        names = ", ".join(sorted(one.pod.metadata.name for one in self._members.bound(key)))
        note = f"The bound members {names} go: the group was never whole, and {record.message}"
        calls: list[GroupWrite] = [
            event(kind, one, record.reporter, reasons.GROUP_RELEASED, "Releasing", note)
            for kind, one in self._members.described_by(key)[:1]
        ]
        return calls + self._write(key, {"status": WAITING, "message": record.message})

    def evicted(
        self,
        victims: Sequence[Placed],
        whom: str,
        group: str,
        reporter: str,
        before: Collection[str],
    ) -> list[GroupEvent]:
        """Report on the victims' groups which preemptor evicts them; mark those that end.

        `before` are the uids of pods that were evicted earlier and may still be listed.
        """
        gone: dict[str, list[str]] = {}
        uids = {*before, *(one.pod.metadata.uid for one in victims)}
        for one in victims:
            gone.setdefault(self._members.group_of(one.pod), []).append(one.pod.metadata.name)
        gone.pop("", None)
        calls = self._parts_evicted(victims, whom, reporter)
        for key, pods in gone.items():
            bound = self._members.bound(key)
            kept = sum(one.pod.metadata.uid not in uids for one in bound)
            shrinks = 0 < self._sizes(key) <= kept
            note = given_up(whom, pods, kept if shrinks else 0)
            for kind, obj in self._members.described_by(key)[:1]:
                calls.append(
                    event(kind, obj, reporter, reasons.GROUP_PREEMPTED, "Preempting", note)
                )
            if not shrinks:
                record = self._records.of(key)
                record.status, record.preemptor = PREEMPTED, group
                self._members.changed.add(key)
        return calls

    def _parts_evicted(
        self, victims: Sequence[Placed], whom: str, reporter: str
    ) -> list[GroupEvent]:
        """Return the events of the victims' groups that are subgroups; roots are reported
        separately.
        """
        gone: dict[str, list[str]] = {}
        for one in victims:
            key = self._members.own_group_of(one.pod)
            if key != self._members.root(key):
                gone.setdefault(key, []).append(one.pod.metadata.name)
        uids = {one.pod.metadata.uid for one in victims}
        calls = []
        for key, pods in gone.items():
            bound = self._members.bound(key)
            kept = sum(one.pod.metadata.uid not in uids for one in bound)
            note = given_up(whom, pods, kept)
            for kind, obj in self._members.described_by(key)[:1]:
                calls.append(
                    event(kind, obj, reporter, reasons.GROUP_PREEMPTED, "Preempting", note)
                )
        return calls

    def _write(self, key: str, values: Mapping[str, str | None]) -> list[GroupWrite]:
        calls: list[GroupWrite] = []
        short = {
            name: value if value is None or name != "message" else value[:LONGEST_MESSAGE]
            for name, value in values.items()
        }
        for config_map in self._members.config_maps(key)[:1]:
            calls += status_patch(config_map, short)
        return calls


def _placements(tree: Topology | None, bound: list[Placed]) -> list[MemberPlacement]:
    """Return the members' assignments; of a group that was never planned here only
    nodes are known.
    """
    if tree is not None:
        return placements_of(tree, bound)
    return [MemberPlacement(one.pod.metadata.name, one.node, ()) for one in bound]


def _orders_of(
    record: GroupRecord, placed: Iterable[Placed]
) -> tuple[MemberOrder, ...] | msgspec.UnsetType:
    """Return the orders of the last plan, for the members that are still on its nodes; UNSET for
    none.
    """
    nodes = {one.pod.metadata.name: one.node for one in placed}
    found = tuple(
        one for one in record.orders if all(nodes.get(name) == node for name, node in one.members)
    )
    return found or msgspec.UNSET
