"""Why a node was chosen: the next best one, and which plugins made the difference. Pure."""

from collections.abc import Iterable

from scheduler.whatif.verdicts import NodeVerdict
from scheduler.whatif.why.records import RunnerUp, Why

MOST_PLUGINS = 3


def why_placed(key: str, chosen: str, current: str | None, nodes: Iterable[NodeVerdict]) -> Why:
    """Return why pod `key`, which is on `current` if anywhere, would go to `chosen`."""
    fitting = {one.name: one for one in nodes if one.feasible}
    lead = f"{key} would go to {chosen}"
    if current is not None:
        lead = f"{key} is on {current}, and would go there again"
        if current != chosen:
            lead = f"{key} is on {current}; would now go to {chosen}"
    best = fitting.pop(chosen, None)
    others = [one for one in fitting.values() if one.total is not None]
    if best is None or best.total is None or not others:
        return Why(sentence=f"{lead}: the only node found to fit")
    second = min(others, key=lambda one: (-(one.total or 0), one.name))
    behind = best.total - (second.total or 0)
    gaps = {
        plugin: score.weighted - second.scores[plugin].weighted
        for plugin, score in best.scores.items()
        if plugin in second.scores and score.weighted != second.scores[plugin].weighted
    }
    plugins = dict(sorted(gaps.items(), key=lambda gap: (-abs(gap[1]), gap[0])))
    runner_up = RunnerUp(second.name, behind, plugins)
    return Why(sentence=f"{lead}: {_compared(runner_up)}", runner_up=runner_up)


def _compared(second: RunnerUp) -> str:
    if not second.behind:
        return f"{second.node} is as good"
    largest = [f"{name} {gap:+d}" for name, gap in list(second.plugins.items())[:MOST_PLUGINS]]
    points = "point" if second.behind == 1 else "points"
    return f"{second.behind} {points} ahead of {second.node} ({', '.join(largest)})"
