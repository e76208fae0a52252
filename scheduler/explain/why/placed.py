"""Why a node was chosen, and the position of a pending pod in the queue. Pure functions."""

from collections.abc import Iterable

from scheduler.base.clock import parse_rfc3339
from scheduler.engine.attempt.cycle import Ties
from scheduler.engine.engine import Engine
from scheduler.explain.why.records import QueuePlace, RunnerUp, Why
from scheduler.objects.pod import Pod
from scheduler.simulate.verdicts import NodeVerdict

MOST_PLUGINS = 3
# What decides among nodes with the same score.
DECIDES = {
    Ties.NAME: "the name decides",
    Ties.UID: "the pod's uid decides",
    Ties.SEED: "the seed decides",
}


def why_placed(
    key: str, chosen: str, current: str | None, nodes: Iterable[NodeVerdict], ties: Ties
) -> Why:
    """Return why pod `key`, which is on `current` if bound, would go to `chosen`.

    Names the next best node, and the plugins that made the difference.
    """
    fitting = {one.name: one for one in nodes if one.feasible}
    lead = f"{key} would go to {chosen}"
    if current is not None:
        lead = f"{key} is on {current}, and would be placed there again"
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
    return Why(sentence=f"{lead}: {_compared(runner_up, ties)}", runner_up=runner_up)


def _compared(second: RunnerUp, ties: Ties) -> str:
    if not second.behind:
        return f"{second.node} has the same score, and {DECIDES[ties]}"
    largest = [f"{name} {gap:+d}" for name, gap in list(second.plugins.items())[:MOST_PLUGINS]]
    points = "point" if second.behind == 1 else "points"
    return f"{second.behind} {points} ahead of {second.node} ({', '.join(largest)})"


def queue_place(engine: Engine, pod: Pod, now: float) -> QueuePlace | None:
    """Return the position of `pod` among all pending pods, as if all were retried.

    None if it is not pending. Empties the queue of `engine`, which cannot run afterwards.
    """
    found = engine.position(pod.metadata.uid, now)
    if found is None:
        return None
    place, waiting = found
    made = parse_rfc3339(pod.metadata.creation_timestamp)
    waited = None if made is None or made > now else int(now - made)
    return QueuePlace(place, waiting, waited)
