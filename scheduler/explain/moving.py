"""What live MovePlans do for a pod: free capacity for it, move it, reserve its node, or keep it
from nodes that are reserved for others.

Called by `explain`; reads the plans' objects alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler.base.clock import parse_rfc3339
from scheduler.framework.groups import title
from scheduler.objects.moves.moveplan import (
    DONE,
    EVICTED,
    EXECUTING,
    RESERVING,
    MovePlan,
    PlannedMove,
    serves,
)
from scheduler.objects.pod import Pod

PROPOSED = "Proposed"
MOST_NODES = 3


def live_moves(pod: Pod, group: str, plans: Iterable[MovePlan], now: float) -> tuple[str, ...]:
    """Return a text for each MovePlan that concerns a pod; `group` is the key of its group."""
    live = [plan for plan in plans if plan.status.phase in (PROPOSED, EXECUTING)]
    live.sort(key=lambda plan: plan.metadata.name)
    names = {pod.key, title(group)} if group else {pod.key}
    found: list[str] = []
    for plan in live:
        found += _for_goal(plan) if plan.spec.goal.waiting in names else ()
        found += _of_pod(plan, pod)
    if found or pod.spec.node_name:
        return tuple(found)
    return tuple(text for plan in live for text in _against(plan, now))


def _for_goal(plan: MovePlan) -> Iterator[str]:
    status = plan.status
    number = len(status.moves)
    moves = f"{number} move{'s' if number != 1 else ''}"
    name = f"MovePlan {plan.metadata.name}"
    if status.phase == EXECUTING:
        done = sum(move.state == DONE for move in status.moves)
        yield f"{name} makes it fit: {done} of {moves} {'is' if done == 1 else 'are'} done"
    elif number and plan.spec.approved != status.plan_hash:
        yield f"{name} makes it fit after {moves}, once spec.approved is {status.plan_hash}"
    elif number:
        yield f"{name} makes it fit after {moves}; it is approved and has not begun"


def _of_pod(plan: MovePlan, pod: Pod) -> Iterator[str]:
    name = f"MovePlan {plan.metadata.name}"
    is_executing = plan.status.phase == EXECUTING
    for move in plan.status.moves:
        if move.uid == pod.metadata.uid and move.state != DONE:
            verb = "moves" if is_executing else "plans to move"
            yield f"{name} {verb} it from {move.source} to {move.target} ({move.state})"
        elif is_executing and move.state == EVICTED and _waits_for(move, pod):
            yield f"{name} reserves {move.target} for it, in place of {move.pod}"


def _waits_for(move: PlannedMove, pod: Pod) -> bool:
    return not pod.spec.node_name and serves(move, pod)


def _against(plan: MovePlan, now: float) -> Iterator[str]:
    """Yield which nodes a plan reserves for other pods."""
    if plan.status.phase != EXECUTING:
        return
    reserving = [move for move in plan.status.moves if _is_reserving(move, now)]
    if reserving:
        nodes = list(dict.fromkeys(move.target for move in reserving))
        more = f" and {len(nodes) - MOST_NODES} more" if len(nodes) > MOST_NODES else ""
        where = f"{', '.join(nodes[:MOST_NODES])}{more}"
        yield f"MovePlan {plan.metadata.name} reserves capacity of {where} for pods that it moves"


def _is_reserving(move: PlannedMove, now: float) -> bool:
    return move.state in RESERVING and (parse_rfc3339(move.deadline) or 0.0) > now
