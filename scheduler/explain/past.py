"""A past decision, as reported by the daemon, in the form of an explanation.

The daemon stores the counts of many decisions and the verdict on each node of some; reads the
answer of `/debug/decisions`. Called by `explain --past`.
"""

import msgspec

from scheduler.base.errors import InputError
from scheduler.engine.attempt.cycle import Ties
from scheduler.explain.explain import Explanation, explained_nodes
from scheduler.explain.texttable import TextTable
from scheduler.simulate.records import LastVerdict, Result


class PastDecision(Explanation, frozen=True, rename="camel", kw_only=True):
    """The result of a pod's last attempt at time `at`.

    `rejected` counts nodes by plugin and reason. `nodes` is empty where the daemon has stored the
    counts alone.
    """

    kind: str = "PastDecision"
    uid: str
    at: str
    attempts: int
    feasible_nodes: int
    all_nodes: int
    rejected: dict[str, dict[str, int]]


_decoder = msgspec.json.Decoder(LastVerdict)


def past_decision(answer: bytes, *, node: str = "") -> tuple[PastDecision, tuple[str, ...]]:
    """Return a daemon's answer, of all nodes or just `node`, and notices."""
    try:
        verdict = _decoder.decode(answer)
    except msgspec.MsgspecError as error:
        raise InputError(f"not what a daemon of this version answers: {error}") from error
    nodes = explained_nodes(verdict.nodes or (), verdict.node, Ties.UID)
    notices = () if nodes else ("the verdict on each node was not stored, only the counts",)
    if node and nodes:
        nodes = tuple(one for one in nodes if one.name == node)
        if not nodes:
            raise InputError("that decision has no such node", where=node)
    found = PastDecision(
        namespace=verdict.namespace,
        name=verdict.name,
        uid=verdict.uid,
        at=verdict.at,
        profile=verdict.profile,
        result=Result.SCHEDULED if verdict.node else Result.UNSCHEDULABLE,
        node=verdict.node or None,
        message=verdict.message,
        nominated_node=verdict.nominated_node or None,
        victims=verdict.victims,
        attempts=verdict.attempts,
        feasible_nodes=verdict.feasible_nodes,
        all_nodes=verdict.all_nodes,
        rejected=verdict.rejected,
        nodes=nodes,
    )
    return found, notices


def past_line(past: PastDecision) -> str:
    """Return a past decision in one line."""
    lead = f"{past.namespace}/{past.name}: at {past.at}, attempt {past.attempts}"
    if past.node is not None:
        fits = f"{past.feasible_nodes} of {past.all_nodes} nodes fitted"
        return f"{lead}, {past.node} was chosen; {fits}"
    gone = ", ".join(f"{pod.namespace}/{pod.name}" for pod in past.victims)
    nomination = f" (nominated to {past.nominated_node}" if past.nominated_node else ""
    if nomination:
        nomination += f" in place of {gone})" if gone else ")"
    return f"{lead}, no node was found: {past.message}{nomination}"


def counts_table(past: PastDecision) -> list[TextTable]:
    """Return how many nodes each plugin rejected and why, for a decision without its nodes."""
    rows = [
        [plugin, str(count), reason]
        for plugin, reasons in past.rejected.items()
        for reason, count in reasons.items()
    ]
    return [TextTable(["plugin", "nodes", "reason"], rows)] if rows else []
