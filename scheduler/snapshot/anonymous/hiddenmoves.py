"""Replace the names in a snapshot's MovePlans: goals, moves and what they reserve.

Kept are states, times, amounts and hashes. Texts that state names (reasons, summaries, conditions)
are left out: no answer depends on them. Called by `anonymize.py` only.
"""

from __future__ import annotations

from typing import Final

from msgspec import convert, to_builtins
from msgspec.structs import replace

from scheduler.objects.kinds import MOVE_PLAN
from scheduler.objects.moveplan import MovePlan, MovePlanStatus, PlannedMove
from scheduler.snapshot.anonymous.hiddendevices import Names
from scheduler.snapshot.export import Object

KIND: Final = MOVE_PLAN.kind


def hidden_plan(obj: Object, names: Names) -> Object:
    """Return a MovePlan with aliases for its names."""
    plan = convert(obj, MovePlan)
    free = plan.spec.goal.free_nodes
    labels = names.generic(free.match_labels, "matchLabels") if free else {}
    level = names.generic(free.level, "nodeLabel") if free else ""
    goal = replace(
        plan.spec.goal,
        waiting=_path(plan.spec.goal.waiting, names),
        free_nodes=free and replace(free, level=level, match_labels=labels),
    )
    spaces = tuple(names.alias(one, "ns") for one in plan.spec.namespaces)
    spec = replace(plan.spec, goal=goal, namespaces=spaces)
    known = plan.status
    status = MovePlanStatus(
        phase=known.phase,
        planned_for=known.planned_for,
        plan_hash=known.plan_hash,
        planned_at=known.planned_at,
        started_at=known.started_at,
        finished_at=known.finished_at,
        is_proven=known.is_proven,
        gap_percent=known.gap_percent,
        moves=tuple(_move(one, names) for one in known.moves),
    )
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "metadata": names.generic(obj["metadata"], "metadata", KIND),
        "spec": to_builtins(spec),
        "status": to_builtins(status),
    }


def _move(move: PlannedMove, names: Names) -> PlannedMove:
    # An ordinal is an index, or the name of a pod.
    is_name = not move.ordinal.isdigit()
    owner = replace(
        move.owner,
        name=names.alias(move.owner.name, "name"),
        uid=names.alias(move.owner.uid, "uid"),
    )
    return replace(
        move,
        namespace=names.alias(move.namespace, "ns"),
        name=names.alias(move.name, "pod"),
        uid=names.alias(move.uid, "uid"),
        source=names.alias(move.source, "node"),
        target=names.alias(move.target, "node"),
        owner=owner,
        ordinal=names.alias(move.ordinal, "pod") if is_name else move.ordinal,
        unit=_path(move.unit, names),
        reason="",
        host_ports=tuple(replace(one, name="", host_ip="") for one in move.host_ports),
        present=tuple(names.alias(one, "uid") for one in move.present),
        replacement=names.alias(move.replacement, "pod"),
    )


def _path(text: str, names: Names) -> str:
    """Return `namespace/name` with aliases; the index of a set's pods stays."""
    return "/".join(
        part if part.isdigit() else names.alias(part, "name" if at else "ns")
        for at, part in enumerate(text.split("/"))
    )
