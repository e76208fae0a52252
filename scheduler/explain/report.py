"""Records as tables for people: titles and rows of text. The caller aligns and prints them."""

from collections.abc import Iterable
from typing import Final

from scheduler.base.text import NameKey, go_duration, natural
from scheduler.explain.explain import Explanation, NodeExplanation
from scheduler.explain.nodetables import verdict_text
from scheduler.explain.simrows import pod_names
from scheduler.explain.texttable import TextTable
from scheduler.explain.why.records import Why
from scheduler.simulate.diff import PodSide, SimulationDiff
from scheduler.simulate.offers import OfferReport
from scheduler.simulate.records import Simulation

# Up to this number of nodes with the same verdict have a row each.
FEW: Final = 10


def summary_line(simulation: Simulation) -> str:
    """Return a simulation in one line."""
    total, cost = len(simulation.pods), simulation.summary.network_cost
    gone = len({(one.namespace, one.name) for pod in simulation.pods for one in pod.victims})
    evicted = f", {gone} evicted for them" if gone else ""
    priced = f"; network cost {cost}" if cost else ""
    return f"{simulation.summary.scheduled} of {total} pods scheduled{evicted}{priced}"


def diff_table(diff: SimulationDiff) -> TextTable:
    """Return one row per pod with different results."""
    rows = [
        [one.namespace, one.name, _side_text(one.before), _side_text(one.after)]
        for one in diff.pods
    ]
    return TextTable(["namespace", "name", "before", "after"], rows)


def diff_line(diff: SimulationDiff) -> str:
    """Return a comparison in one line."""
    before, after = diff.summary.before.scheduled, diff.summary.after.scheduled
    return (
        f"{len(diff.pods)} pods differ, {diff.same} do not; scheduled: {before} before, "
        f"{after} after"
    )


def offers_tables(offers: OfferReport) -> list[TextTable]:
    """Return one row per kind of node, the cheapest first; nothing when none is needed."""
    rows = [
        [
            one.node,
            _price(one.cost),
            "-" if one.nodes is None else str(one.nodes),
            "-" if one.total is None else _price(one.total),
            one.message,
        ]
        for one in offers.offers
    ]
    return [TextTable(["node", "cost", "nodes", "total", "message"], rows)] if rows else []


def offers_line(offers: OfferReport) -> str:
    """Return as one line which nodes to add."""
    if not offers.is_needed:
        return "no more nodes are needed"
    best = offers.offers[0]
    if best.nodes is None:
        return f"none of these nodes helps: {best.message}"
    return (
        f"{best.nodes} of {best.node} for {_price(best.total or 0.0)} suffice at the lowest "
        f"cost; without them: {offers.message}"
    )


def _price(cost: float) -> str:
    return f"{cost:.10g}"


def _side_text(side: PodSide | None) -> str:
    if side is None:
        return "not ours"
    text = side.node or side.message or side.result.value
    if side.nominated_node:
        text += f" (nominated to {side.nominated_node})"
    return text + (f" in place of {pod_names(side.victims)}" if side.victims else "")


def explanation_tables(explanation: Explanation, *, wide: bool, one_node: bool) -> list[TextTable]:
    """Return the nodes, best first; for one node the verdict of each plugin.

    Unless `wide` is set, many nodes with the same verdict share one row, and so do those that fit
    beyond the best.
    """
    if one_node:
        return [_plugins_table(node) for node in explanation.nodes]
    ordered = sorted(explanation.nodes, key=lambda node: _rank(node, explanation.node))
    plugins = sorted({plugin for node in ordered for plugin in node.scores}) if wide else []
    rows = [
        [
            node.name if not equal else f"{node.name} and {equal} more",
            verdict_text(node.feasible, node.rejected_by, "rejected"),
            "" if node.total is None else str(node.total),
            *(str(node.scores[p].weighted) if p in node.scores else "" for p in plugins),
            node.why,
        ]
        for node, equal in (((node, 0) for node in ordered) if wide else _folded(ordered))
    ]
    tables = [TextTable(["node", "verdict", "total", *plugins, "why"], rows)] if rows else []
    return [*tables, _ties_table(explanation)] if explanation.ties else tables


def _folded(ordered: Iterable[NodeExplanation]) -> list[tuple[NodeExplanation, int]]:
    """Return nodes in their order, each with the number of further nodes that its row stands for.

    Equal explanations of more than `FEW` nodes are one row. Nodes that fit beyond `FEW` rows are
    one row as well: each is worse than the last.
    """
    by_verdict: dict[tuple[bool, str], list[NodeExplanation]] = {}
    for node in ordered:
        by_verdict.setdefault((node.feasible, node.why), []).append(node)
    rows: list[tuple[NodeExplanation, int]] = []
    for nodes in by_verdict.values():
        if len(nodes) > FEW:
            rows.append((nodes[0], len(nodes) - 1))
        else:
            rows += [(node, 0) for node in nodes]
    fitting = [row for row in rows if row[0].feasible]
    rest = sum(1 + more for _, more in fitting[FEW + 1 :])
    if rest:
        last, more = fitting[FEW]
        fitting[FEW:] = [(last, more + rest)]
    return [*fitting, *(row for row in rows if not row[0].feasible)]


def _ties_table(explanation: Explanation) -> TextTable:
    rows = [
        [
            tie.workload,
            "depends on it" if tie.is_dependent else "is needed",
            str(tie.pods),
            str(tie.cost),
            f"{tie.kept} of {tie.pods} within {tie.limit}",
        ]
        for tie in explanation.ties
    ]
    heading = f"network cost {explanation.network_cost}: the pod's dependencies"
    return TextTable(["workload", "tie", "pods", "cost", "limit"], rows, heading)


def explanation_lines(explanation: Explanation) -> list[str]:
    """Return an explanation as one sentence, and below it its reasons, a line for each."""
    why = explanation.why or Why(sentence="")
    points: list[tuple[str, str]] = []
    if explanation.node is None and explanation.message not in why.sentence:
        points.append(("condition", explanation.message))
    if explanation.nominated_node:
        gone = f" in place of {pod_names(explanation.victims)}" if explanation.victims else ""
        points.append(("nominated", f"to {explanation.nominated_node}{gone}"))
    points += [("moves", text) for text in explanation.moves]
    points += _score_figures(explanation)
    points += [("suggestion", one.text) for one in why.suggestions]
    if why.woken_by:
        points.append(("tried again", f"after {'; '.join(why.woken_by)}"))
    if why.queue is not None and (explanation.node is None or why.queue.place > 1):
        waited = why.queue.waited_seconds
        since = "" if waited is None else f", for {go_duration(waited)}"
        place = f"position {why.queue.place} of {why.queue.waiting} in the queue"
        points.append(("waits", place + since))
    width = max((len(title) for title, _ in points), default=0) + 1
    return [why.sentence, *(f"  {title + ':':<{width}} {text}" for title, text in points)]


def _score_figures(explanation: Explanation) -> list[tuple[str, str]]:
    """Return what plugins that only score report about the chosen node."""
    return [
        (name, text)
        for node in explanation.nodes
        if node.name == explanation.node
        for name, verdict in node.plugins.items()
        if not verdict.code
        for text in verdict.figures
    ]


def _plugins_table(node: NodeExplanation) -> TextTable:
    names = list(dict.fromkeys([*node.plugins, *node.scores]))
    rows = []
    for name in names:
        verdict, score = node.plugins.get(name), node.scores.get(name)
        numbers = (score.raw, score.normalized, score.weight, score.weighted) if score else ()
        rows.append(
            [
                name,
                verdict.code if verdict is not None else "",
                *(str(number) for number in numbers or ("", "", "", "")),
                "; ".join((*verdict.reasons, *verdict.figures)) if verdict is not None else "",
            ]
        )
    titles = ["plugin", "filter", "raw", "normalized", "weight", "weighted", "reasons"]
    return TextTable(titles, rows, heading=f"{node.name}: {node.why}")


def _rank(node: NodeExplanation, chosen: str | None) -> tuple[bool, bool, int, NameKey]:
    return node.name != chosen, not node.feasible, -(node.total or 0), natural(node.name)
