"""What is kept of groups in memory, written to their objects, and reported by `simulate`."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.framework.calls import ApiCall
from scheduler.framework.groups import GroupReport, Stage
from scheduler.plugins.groups.life import (
    BOUND,
    FAILED,
    LONGEST_MESSAGE,
    PREEMPTED,
    PREEMPTING,
    STATUS_AFTER,
    WAITING,
    Record,
    began_at,
    labels,
    results,
    status_patch,
)
from scheduler.plugins.groups.members import GroupMembers, group_of
from scheduler.plugins.groups.placement import tree_of
from scheduler.plugins.groups.planning import seats
from scheduler.plugins.groups.topology import Topology


class Teller:
    """Turns stages into statuses and requests."""

    def __init__(
        self, members: GroupMembers, records: dict[str, Record], trees: Mapping[str, Topology]
    ) -> None:
        self._members = members
        self._records = records
        self._trees = trees

    def told(self, key: str, stage: Stage, now: float) -> list[ApiCall]:
        """Follow a stage; return what is to be written."""
        record = self._records.setdefault(key, Record())
        if stage is Stage.HELD:
            # Whoever is merely not complete has nothing to be told of.
            is_faulty = record.status == FAILED and bool(record.message)
            return (
                self._write(key, {"status": FAILED, "message": record.message}) if is_faulty else []
            )
        record.status = STATUS_AFTER[stage]
        if stage is Stage.STARTED and record.began is None:
            record.began = now
        if stage is Stage.REFUSED:
            return self._write(key, {"status": FAILED, "message": record.message})
        if stage is Stage.RELEASED:
            return self._write(key, {"status": WAITING})
        if stage is Stage.PREEMPTING:
            return self._preempting(key, record)
        if stage is Stage.BOUND:
            return self._bound(key, record, now)
        return []

    def checked(self, key: str, size: int, now: float) -> list[ApiCall]:
        """Compare what is written with what is: a restart or a lost request may lie between.

        A group that is whole says so with the placement that holds; one without any member begins
        anew.
        """
        standing = self._members.standing(key)
        record = self._records.setdefault(key, Record())
        maps = self._members.config_maps(key)
        data = (maps[0].data or {}) if maps else {}
        if not standing:
            record.was_bound = False
            return self._write(key, {"status": WAITING}) if data.get("status") == BOUND else []
        if not size or len(standing) < size or any(placed.assumed for placed in standing):
            return []
        record.was_bound = True
        if data.get("status") != BOUND:
            return self._bound(key, record, now)
        tree = self._trees.get(key)
        if tree is None:
            return []
        seated = seats(tree, standing)
        told = results(seated, record, now)
        if told["placement"] == data.get("placement"):
            return []
        # A member was replaced: the times of the group's first placement stay.
        return self._write(key, {name: told[name] for name in ("placement", "rank")})

    def status(self, key: str, size: int) -> str:
        """Return a group's status: bound when all are there, else what became of its last attempt."""
        if size and len(self._members.standing(key)) >= size:
            return BOUND
        record = self._records.get(key)
        return WAITING if record is None else record.status

    def report(self, key: str, size: int) -> GroupReport:
        """Return what `simulate` says of a group."""
        record = self._records.get(key, Record())
        standing = self._members.standing(key)
        tree = self._trees.get(key)
        namespace, _, name = key.partition("/")
        return GroupReport(
            namespace,
            name,
            self.status(key, size),
            size,
            tree_of(seats(tree, standing)) if tree is not None and standing else {"root": {}},
            record.optimal,
            record.objective,
            record.bound,
            0.0,
            tuple(
                {"namespace": one.pod.metadata.namespace, "name": one.pod.metadata.name}
                for one in record.victims
            ),
            record.conflict,
        )

    def _bound(self, key: str, record: Record, now: float) -> list[ApiCall]:
        placed = self._members.standing(key)
        tree = self._trees.get(key)
        seated = seats(tree, placed) if tree is not None else []
        record.began = began_at(placed, now if record.began is None else record.began)
        calls = self._write(key, results(seated, record, now))
        calls += labels(placed, seated, record.retries)
        for other in self._members.keys():  # noqa: SIM118 - a method of its own
            for config_map in self._members.config_maps(other):
                if (config_map.data or {}).get("preemptor") == key:
                    calls += status_patch(config_map, {"preemptor": None})
        return calls

    def _preempting(self, key: str, record: Record) -> list[ApiCall]:
        calls = self._write(key, {"status": PREEMPTING, "message": record.message or None})
        for victim in dict.fromkeys(group_of(one.pod) for one in record.victims):
            if victim:
                self._records.setdefault(victim, Record()).status = PREEMPTED
                calls += self._write(victim, {"status": PREEMPTED, "preemptor": key})
        return calls

    def _write(self, key: str, values: Mapping[str, str | None]) -> list[ApiCall]:
        calls: list[ApiCall] = []
        short = {
            name: value if value is None or name != "message" else value[:LONGEST_MESSAGE]
            for name, value in values.items()
        }
        for config_map in self._members.config_maps(key)[:1]:
            calls += status_patch(config_map, short)
        return calls
