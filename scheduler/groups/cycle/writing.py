"""`Writing`: writes about groups, until the objects show them.

The plugin decides which objects a stage of a group's lifecycle changes; this module sends the
requests. A group is checked again when something about it changes, a request fails, or this process
begins to lead. Such a check may find objects that do not show the last write yet: each member's
label is a change, and 300 members were labelled 32 times each. So a check does not repeat a write
within five seconds. Called by `groups`; decides nothing about pods.
"""

from collections.abc import Container, Mapping
from typing import Any

from scheduler.base.sweep import Sweep
from scheduler.engine.attempt.failure import group_event
from scheduler.engine.deadlines import Deadlines
from scheduler.engine.effects import Answer, Call
from scheduler.framework.groups import GroupEvent, GroupLook, GroupPlanner, GroupStage
from scheduler.groups.cycle.counts import GroupCounts
from scheduler.groups.cycle.states import GroupStates, Observed, observed
from scheduler.groups.cycle.steps import GroupSteps

WRITE_AGAIN_S = 5.0
SURE_AFTER_S = WRITE_AGAIN_S + 1.0
# The object was deleted, or may not be written: the request is not repeated for a while.
_FINAL = (403, 404)
REFUSED_FOR_S = 300.0


class Writing:
    """The requests about groups in progress, and the groups to be compared."""

    def __init__(self, steps: GroupSteps, counts: GroupCounts) -> None:
        self._engine = steps
        self._counts = counts
        self._known: dict[str, GroupPlanner] = {}
        self._sweep = Sweep()
        self.due = Deadlines()
        self.states = GroupStates()
        # Groups that changed since the last comparison; kept while nothing may be decided.
        self._changed: dict[str, GroupPlanner] = {}
        self._may_compare = False
        self._calls: dict[int, tuple[str, str]] = {}  # the group's key and the path, by effect
        # Per group: the time after which status writes of the previous leader can no longer be in
        # flight.
        self._unsure: dict[str, float] = {}
        # The last write to each path and its time, oldest first.
        self._written: dict[str, tuple[float, Any]] = {}

    def report_stage(self, planner: GroupPlanner, key: str, stage: GroupStage, now: float) -> None:
        """Move the group by a stage, notify the plugin, and emit the requests that it returns."""
        self._counts.came_to(stage)
        self._known[key] = planner
        try:
            if stage is not GroupStage.CHANGED:
                self.states.move(key, stage)
            calls = planner.group_reported(key, stage, now)
            if stage is not GroupStage.BOUND:
                self._observe(planner, key)
        except Exception as error:  # noqa: BLE001 - a failed write changes no decision
            self._engine.fault(planner.name, "GroupTold", error)
            return
        for call in calls:
            if isinstance(call, GroupEvent):
                self._engine.outbox.put(group_event(call, now))
                continue
            if isinstance(call, GroupLook):
                self.due.set_earlier(key, call.at)
                continue
            since, body = self._written.get(call.path, (now, None))
            if stage is GroupStage.CHANGED and body == call.body:
                self.due.set_earlier(key, since + WRITE_AGAIN_S)
                continue
            self._written.pop(call.path, None)
            self._written[call.path] = (now, call.body)
            effect = self._engine.outbox.new_id()
            self._calls[effect] = (key, call.path)
            self._engine.outbox.put(
                Call(effect, call.method, call.path, call.content_type, call.body)
            )

    def abandon(self, planner: GroupPlanner, key: str) -> None:
        """Move a group whose planning has ended without an outcome."""
        try:
            self.states.move(key, Observed.ABANDONED)
            self._observe(planner, key)
        except Exception as error:  # noqa: BLE001 - its members are put back in any case
            self._engine.fault(planner.name, "GroupTold", error)

    def _observe(self, planner: GroupPlanner, key: str) -> None:
        """Set the state of a group without an attempt in progress by its members' reported
        states.
        """
        if self.states.is_at_rest(key):
            self.states.move(key, observed(*planner.group_presence(key)))

    def answer(self, answer: Answer, now: float) -> bool:
        """Process the answer to a request; after a failure, compare the group and write again."""
        known = self._calls.pop(answer.effect, None)
        if known is None:
            return False
        key, path = known
        if not answer.ok:
            _, body = self._written.pop(path, (now, None))
            if answer.code in _FINAL:
                self._written[path] = (now + REFUSED_FOR_S, body)
            elif key in self._known:
                self.due.set(key, now + WRITE_AGAIN_S)
        return True

    def leads(self, now: float) -> None:
        """Compare all groups now and once more later: the previous leader's last writes may be
        lost.
        """
        self._calls.clear()
        self._written.clear()
        self._unsure = dict.fromkeys(self._known, now + SURE_AFTER_S)
        for key in self._known:
            self.due.set(key, now)

    def next_deadline(self) -> float | None:
        """Return the next time at which `compare` has work, or None."""
        return self.due.next() if self._may_compare else None

    @property
    def has_work(self) -> bool:
        """Return whether a group is to be compared now or later."""
        return bool(self._changed or self.due)

    def note(self, changed: Mapping[str, GroupPlanner]) -> None:
        """Mark groups to be compared in the next turn that may decide."""
        self._changed.update(changed)

    def compare(self, busy: Container[str], now: float, *, may_decide: bool) -> None:
        """Compare the written status of changed groups with the cluster, except those in `busy`.

        No group is compared before all kinds are listed: a group with half of its members known
        would lose its status and its proof.
        """
        self._may_compare = may_decide
        if not may_decide:
            return
        changed, self._changed = self._changed, {}
        for key, planner in changed.items():
            self._known[key] = planner
            self.due.set(key, now)
        self._sweep.clear(self._known, self._is_there)
        self.states.sweep(self._known.__contains__)
        while self._written and (path := next(iter(self._written))):
            if now < self._written[path][0] + WRITE_AGAIN_S:
                break
            del self._written[path]
        for key in self.due.take(now):
            if key not in busy:
                self.report_stage(self._known[key], key, GroupStage.CHANGED, now)
            if now < (sure_at := self._unsure.get(key, now)):
                self.due.set(key, sure_at)
            else:
                self._unsure.pop(key, None)

    def _is_there(self, key: str) -> bool:
        return key in self.due or self._known[key].has_group(key)
