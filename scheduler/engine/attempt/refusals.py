"""`Refusals`: what pods were told in this turn of the engine, for the next one that is like them.

A hundred thousand pods of a kind that fits nowhere are refused one after the other, all in the same words.
While nothing happens between two of them, the second need not be tried to know them.
Law: attempts end as if nothing had been kept.
"""

from collections.abc import Hashable

from scheduler.engine.attempt.cycle import Attempt
from scheduler.engine.decision import Decision
from scheduler.state.shapes import Shape


class Refusals:
    """The refusals of this turn by what pods of one kind have in common, until anything else is decided."""

    def __init__(self) -> None:
        # With a shape, which lives as long as somebody holds it: of pods that wait nobody does.
        self._known: dict[Hashable, tuple[Decision, Shape]] = {}

    def of(self, attempt: Attempt) -> Decision | None:
        """Return how an attempt would end, where that is known without making it."""
        if not self._known:
            return None
        likeness = _likeness(attempt)
        known = None if likeness is None else self._known.get(likeness)
        return None if known is None else known[0]

    def note(self, attempt: Attempt, decision: Decision) -> None:
        """Keep a refusal, unless it says something of this pod alone; whatever else was decided ends all."""
        if not _is_plain(decision):
            self._known.clear()
            return
        likeness = _likeness(attempt)
        if likeness is not None:
            self._known[likeness] = decision, attempt.cycle.shape

    def forget(self) -> None:
        """Forget all: something else happens."""
        self._known.clear()


def _is_plain(decision: Decision) -> bool:
    """Whether a pod is refused, and nobody is asked to go or to do anything for it."""
    return (
        decision.status.is_rejected
        and not decision.node
        and not decision.nominated_node
        and not decision.victims
        and not decision.calls
    )


def _likeness(attempt: Attempt) -> Hashable | None:
    """Return what is equal for pods that are refused alike; None where this one is promised a node."""
    pod = attempt.cycle.pod
    if pod.status.nominated_node_name:
        return None
    found = attempt.runner.likeness(attempt.cycle, attempt.nodes)
    return None if found is None else (pod.spec.scheduler_name, found)
