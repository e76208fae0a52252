"""Members of a group are rejected some in each turn, the first with what concerns the group."""

from types import SimpleNamespace
from typing import Any

from scheduler.engine.queue.pod import Where
from scheduler.framework.status import unschedulable
from scheduler.groups.cycle.bindings import AT_A_TIME
from scheduler.groups.cycle.refusals import MemberRefusals

CALL: Any = SimpleNamespace(name="release")


class Steps:
    """Records rejections; every group has one claim to release."""

    def __init__(self) -> None:
        self.refused: list[tuple[str, int]] = []

    def refuse(self, member: Any, decision: Any, _now: float) -> None:
        self.refused.append((member.uid, len(decision.calls)))

    def release_allocations(self, _members: Any) -> tuple[Any, ...]:
        """Return one call."""
        return (CALL,)


def test_a_large_group_is_rejected_over_several_turns():
    """The group is pending until its last member; a deleted one is left out; another is not."""
    members = [SimpleNamespace(uid=f"u{at}", where=Where.IN_FLIGHT) for at in range(AT_A_TIME + 2)]
    known = {member.uid: member for member in members}
    steps: Any = Steps()
    queues: Any = SimpleNamespace(get=known.get)
    refusals = MemberRefusals(queues, steps)
    refusals.put("a", members, unschedulable("full"), 0.0)  # type: ignore[arg-type]

    assert (True, False) == (refusals.has("a"), refusals.has("b"))
    assert [("u0", 1), ("u1", 0)] == steps.refused[:2]
    assert AT_A_TIME == len(steps.refused)
    del known[members[-1].uid]
    refusals.go_on(1.0)

    assert not refusals.has("a")
    assert [members[-2].uid] == [uid for uid, _ in steps.refused[AT_A_TIME:]]
