"""The changes that `Groups` makes in the engine: one method for each step of a group.

It has no state. `groups` calls it; the owners of queue, nominations and bindings carry the changes
out.
"""

from collections.abc import Sequence

import msgspec

from scheduler.base import reasons
from scheduler.engine.attempt import failure
from scheduler.engine.binding.inflight import InFlight
from scheduler.engine.binding.preemption import eviction
from scheduler.engine.decision import Decision
from scheduler.engine.groups import EngineParts
from scheduler.engine.intake import capacity_freed
from scheduler.engine.queue.pod import QueuedPod
from scheduler.framework.calls import ApiCall
from scheduler.framework.groups import GroupPlan, title
from scheduler.framework.status import Code, Status
from scheduler.state.podindex import Placed


class GroupSteps:
    """The engine's parts that a group passes through."""

    def __init__(self, parts: EngineParts) -> None:
        self.bindings = parts.bindings
        self.nominations = parts.nominations
        self.preemptions = parts.preemptions
        self.outbox = parts.outbox
        self.observation = parts.observation
        self.intake = parts.intake
        self.attempts = parts.attempts

    def enter(self, member: InFlight, now: float) -> None:
        """Enter an assumed member: it counts on its chosen, no longer on its nominated node."""
        member.is_member = True
        nominated = self.nominations.drop(member.uid)
        if nominated not in ("", member.node):
            self.intake.announce(capacity_freed(member.queued.pod), now)
        self.attempts.requeue_overtaken(member.queued.pod, member.node, now)
        self.bindings.enter(member)

    def carry_out(self, member: InFlight, nodes: int, hold: tuple[str, float], now: float) -> None:
        """Take a member on to reserve and permit, where `hold` keeps it."""
        member.started_s = self.observation.now_s()
        decision = Decision(node=member.node, node_count=nodes)
        self.observation.decided(member.queued, decision, member.started_s)
        self.bindings.begin(member, now, hold)

    def refuse(self, member: QueuedPod, decision: Decision, now: float) -> None:
        """Report why a member is not placed, and requeue it; announce the capacity of a cleared
        nomination.
        """
        started_s = self.observation.now_s()
        self.observation.decided(member, decision, started_s)
        nominated = self.nominations.node_of(member.uid)
        self.attempts.give_up(member, decision, started_s, now)
        if nominated and not self.nominations.node_of(member.uid):
            self.intake.announce(capacity_freed(member.pod), now)

    def release_allocations(self, members: Sequence[QueuedPod]) -> tuple[ApiCall, ...]:
        """Return the calls that release allocations of an earlier attempt for members that fit
        nowhere now.
        """
        pods = tuple(member.pod for member in members)
        profile = self.attempts.prepare(pods[0], self.outbox.now).runner.profile
        calls: list[ApiCall] = []
        for name, plugin in profile.plugins.items():
            if plugin.serves("release_allocations"):
                try:
                    calls += plugin.release_allocations(pods)
                except Exception as error:  # noqa: BLE001 - they wait with their present state
                    self.fault(name, "LetGo", error)
        return tuple(calls)

    def nominate(
        self,
        key: str,
        nominated: Sequence[tuple[QueuedPod, str]],
        plan: GroupPlan,
        status: Status,
    ) -> list[tuple[QueuedPod, Decision]]:
        """Nominate all members of a group to the nodes of a plan; return each member's decision."""
        for member, node in nominated:
            self.nominations.put(member.pod, node)
        decisions = []
        for number, (member, node) in enumerate(nominated):
            decision = Decision(
                status=msgspec.structs.replace(status, code=Code.UNSCHEDULABLE),
                message=status.message,
                nominated_node=node,
                # The first speaks for all: evictions are counted and answered once.
                victims=plan.victims if number == 0 else (),
                expected=plan.expected,
                disruption=plan.disruption,
                preempted_by=status.plugin,
                group=key,
            )
            decisions.append((member, decision))
        return decisions

    def dissolve(self, bound: Sequence[Placed], key: str, why: str, now: float) -> None:
        """Evict the bound members of a group; each gets an event with group and reason first."""
        for placed in bound:
            profile = placed.pod.spec.scheduler_name
            self.outbox.put(failure.released_event(placed.pod, title(key), why, now))
            message = f"{profile}: the group {title(key)} cannot become whole"
            self.outbox.put(eviction(self.outbox.new_id(), placed.pod, message))

    def give_up(self, members: Sequence[QueuedPod | None], now: float) -> None:
        """Clear the nominations of those members that still wait; announce the freed capacity."""
        for member in members:
            if member is not None and self.nominations.drop(member.uid):
                self.attempts.refusals.forget()
                self.outbox.put(failure.nomination_patch(member, ""))
                self.intake.announce(capacity_freed(member.pod), now)

    def explain_wait(self, member: QueuedPod, message: str, now: float) -> None:
        """Report on a member that is on hold which members its group waits for."""
        self.outbox.put(failure.status_patch(member, reasons.WAITING_FOR_GROUP, message, None, now))

    def fault(self, plugin: str, point: str, error: Exception) -> None:
        """Report a plugin's fault."""
        self.observation.fault(plugin, point, error)
