"""The differences between kube-scheduler's outcome and ours, value by value.

kube-scheduler's choice must be one of our best nodes; everything else must be equal. Values that
are invisible on either side are not compared: a pod with one feasible node has no scores.
"""

import re
from typing import Any

from scheduler.plugins.dynamicresources.plugin import DEALLOCATED
from tests.differential.case import Outcome

VARIES = re.compile(r"(no such key:|cannot add device|resource pool) \S+")


def differences(peer: Outcome, ours: Outcome) -> dict[str, Any]:
    """Return the differences as path → [peer's value, ours]; empty if both agree."""
    if peer.result != ours.result:
        return {"result": [_brief(peer), _brief(ours)]}
    compared: dict[str, tuple[Any, Any]] = {}
    if peer.result == "Scheduled":
        compared["best"] = (peer.node in ours.best, True)
        compared["feasible"] = (peer.feasible, ours.feasible)
        if peer.scores or ours.scores:
            compared["feasibleNodes"] = (sorted(peer.scores), sorted(ours.scores))
        for node in sorted(peer.scores.keys() & ours.scores.keys()):
            theirs, mine = peer.scores[node], ours.scores[node]
            for plugin in sorted(theirs.keys() | mine.keys()):
                compared[f"scores/{node}/{plugin}"] = (theirs.get(plugin), mine.get(plugin))
            compared[f"totals/{node}"] = (peer.totals.get(node), ours.totals.get(node))
        if peer.node == ours.node:
            compared["claims"] = (peer.claims, ours.claims)
    elif peer.result == "Error":
        compared["message"] = (plain(peer.message), plain(ours.message))
    elif peer.result != "Gated":
        compared["message"] = (peer.message, ours.message)
    if peer.result == "Unschedulable":
        compared["plugins"] = (peer.plugins, ours.plugins)
        compared["nominated"] = (peer.nominated or "", ours.nominated or "")
        compared["candidates"] = (peer.candidates, ours.candidates)
        compared["victims"] = (peer.victims, ours.victims)
        if peer.victims:
            compared["best"] = (not ours.best or peer.nominated in ours.best, True)
    return {path: list(values) for path, values in compared.items() if values[0] != values[1]}


def through_simulate(pod: Any, ours: Outcome) -> dict[str, Any]:
    """Return the differences between `simulate --batch` and the engine alone for a pod."""
    if "error" in pod:
        return {"simulate": [ours.result, pod]}
    victims = _keys(pod["victims"])
    compared: dict[str, tuple[Any, Any]] = {"victims": (ours.victims, victims)}
    if ours.victims and len(ours.best) > 1:
        # Any of the best nodes may be chosen, with its own victims.
        equal = [ours.candidates[node] for node in ours.best]
        compared["victims"] = (equal, victims if victims not in equal else equal)
    # A pod that evicted others is nominated there, and placed later.
    frees_capacity = bool(ours.victims) or DEALLOCATED in ours.message
    if not frees_capacity:
        compared["result"] = (ours.result, pod["result"])
    if ours.result == "Scheduled":
        compared["node"] = (min(ours.best), pod["node"])
        fit = {node["name"]: node for node in pod["nodes"] if node["feasible"]}
        compared["feasible"] = (ours.feasible, len(fit))
        if ours.scores:
            scores = {
                name: {plugin: one["weighted"] for plugin, one in node["scores"].items()}
                for name, node in fit.items()
            }
            compared["scores"] = (ours.scores, scores)
            compared["totals"] = (ours.totals, {n: node["total"] for n, node in fit.items()})
    elif ours.result == "Unschedulable" and not frees_capacity:
        compared["message"] = (ours.message, pod["message"])
    return {
        f"simulate/{path}": list(values)
        for path, values in compared.items()
        if values[0] != values[1]
    }


def _keys(pods: Any) -> list[str]:
    return sorted(f"{pod['namespace']}/{pod['name']}" for pod in pods)


def plain(error: str) -> str:
    """Return an error without the parts that depend on the order of nodes."""
    return VARIES.sub(r"\1 …", error)


def _brief(outcome: Outcome) -> str:
    return f"{outcome.result} {outcome.node}{outcome.message}"
