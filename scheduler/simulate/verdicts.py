"""The verdict of one attempt on every node, as records shared by `simulate` and `explain`.

Reads a `Decision` while its columns are valid: immediately after the decision. Nodes come in the
order of their names.
"""

import msgspec

from scheduler.engine.decision import Decision
from scheduler.framework.nodes import Nodes
from scheduler.framework.status import Code, Status


class PluginScore(msgspec.Struct, frozen=True, gc=False):
    """A plugin's score of a node: raw, normalised to 0..100, and weighted."""

    raw: int
    normalized: int
    weight: int
    weighted: int


class NodeVerdict(msgspec.Struct, frozen=True, rename="camel"):
    """The result of a node; `total` is None if no plugin scored.

    Code Skip marks a node that was not evaluated, because the pod is nominated to another or enough
    others fit.
    """

    name: str
    feasible: bool
    rejected_by: str | None
    code: str
    reasons: tuple[str, ...]
    scores: dict[str, PluginScore]
    total: int | None


def verdicts(decision: Decision, nodes: Nodes) -> tuple[NodeVerdict, ...]:
    """Return the verdict on every node of the view that `decision` was made on."""
    rows = sorted(zip(nodes.names(nodes.exists), nodes.exists.nonzero()[0].tolist(), strict=True))
    columns = [
        (one.plugin, one.weight, one.raw.tolist(), one.normalized.tolist())
        for one in decision.scores
    ]
    totals = decision.total.tolist() if decision.total is not None else []
    feasible = decision.feasible.tolist() if decision.feasible is not None else []
    found = []
    for name, row in rows:
        status = node_status(decision, nodes, row)
        scores = {}
        if columns and feasible[row]:
            scores = {
                plugin: PluginScore(raw[row], normalized[row], weight, normalized[row] * weight)
                for plugin, weight, raw, normalized in columns
            }
        found.append(
            NodeVerdict(
                name=name,
                feasible=status.is_success,
                rejected_by=status.plugin or None,
                code=status.code.value,
                reasons=status.reasons,
                scores=scores,
                total=totals[row] if scores else None,
            )
        )
    return tuple(found)


def node_status(decision: Decision, nodes: Nodes, row: int) -> Status:
    """Return a decision's status of a row, from a filter or a pre-filter."""
    if not decision.status.is_success and not decision.rejections and decision.outside is None:
        return decision.status
    status = decision.node_status(nodes, row)
    feasible = decision.feasible
    if status.is_success and feasible is not None and not feasible[row]:
        return Status(Code.SKIP)
    if status.code is Code.UNRESOLVABLE and not status.plugin and decision.narrowed_by:
        # A pre-filter named the nodes to evaluate, without this one.
        return msgspec.structs.replace(status, plugin=decision.narrowed_by[0])
    return status
