"""Why a member of a group goes where it goes, or waits: the plan for the whole group says. Pure."""

from __future__ import annotations

from msgspec.structs import replace

from scheduler.framework.groups import GroupReport
from scheduler.whatif.records import PodResult
from scheduler.whatif.why.records import Asked, Why


def why_with_group(
    alone: Why | None, member: PodResult, group: GroupReport | None, name: str
) -> Why:
    """Return why `member` fares as it does; `alone` is why it would, were it on its own."""
    if member.node is not None:
        size = "" if group is None else f"{group.size} pods of the "
        is_best = group is not None and group.optimal
        proof = ", and no placement of them is better" if is_best else ""
        text = f"{member.key} would go to {member.node} with the {size}group {name}{proof}"
        return Why(sentence=text)
    if alone is not None and alone.conflict:
        return alone
    if member.victims:
        gone = ", ".join(f"{pod.namespace}/{pod.name}" for pod in member.victims)
        return Why(sentence=f"{member.key} waits with the group {name}, for which {gone} make room")
    rules = () if group is None else group.conflict
    why = Why(sentence=f"{member.key} waits: {member.message}")
    conflict = tuple(Asked(f"group {name}", rule) for rule in rules)
    return replace(why, conflict=conflict)
