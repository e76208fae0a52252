"""Cached rejections within a turn equal the individual ones: the invariant that permits skipping
attempts.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from scheduler.engine import engine
from scheduler.engine.attempt.attempt import TurnRefusals
from scheduler.engine.attempt.cycle import Attempt
from scheduler.engine.decision import Decision
from scheduler.engine.decisionlog import encode_effects
from tests.property import test_claims_alone, test_default_profile, test_objects_alone
from tests.property.batches import batches
from tests.property.engines import build
from tests.property.making import make_pod
from tests.property.moves import NODES, PODS, Move, Pick, create_pod, doorman, seeded_run
from tests.property.rig import Rig

KINDS = 5


def equal_pods(rig: Rig, pick: Pick) -> None:
    """Create several pods of one of a few kinds, one of them perhaps nominated."""
    kind = Random(pick(KINDS)).randrange
    app = "xy"[kind(2)]
    spec: dict[str, Any] = {"cpu": 1 + kind(4), "priority": kind(3), "labels": {"app": app}}
    spec |= test_default_profile._spec(kind, app)
    free = [name for name in PODS if f"default/{name}" not in rig.api.pods]
    for name in free[: 2 + pick(4)]:
        nominated = NODES[pick(len(NODES))] if pick(8) == 0 else ""
        uid = f"{name}-{rig.api._version}"
        rig.api.put("Pod", make_pod(name, uid=uid, nominated=nominated, **spec))


INSTEAD: dict[Move, Move] = {**test_default_profile.INSTEAD, create_pod: equal_pods}


def equal_pods_under_faults(seed: int) -> Rig:
    """Create and delete equal pods under all faults."""
    rig = seeded_run(seed, build, without=(doorman,), instead=INSTEAD)
    rig.settle()
    return rig


def groups(seed: int) -> Rig:
    """Create and delete groups of all kinds among equal pods."""

    def someone(rig: Rig, pick: Pick) -> None:
        (equal_pods, test_objects_alone.any_pod)[pick(2)](rig, pick)

    instead = {**test_objects_alone.INSTEAD, create_pod: someone}
    without = test_objects_alone.WITHOUT
    rig = seeded_run(seed, build, without=without, instead=instead)
    rig.calm()
    return rig


def steps(rig_of: Callable[[int], Rig], seed: int) -> list[bytes]:
    """Return an engine's effects, turn by turn."""
    return [encode_effects(effects) for _, _, _, effects in rig_of(seed).steps]


def compare(rig_of: Callable[[int], Rig], seeds: range, monkeypatch: pytest.MonkeyPatch) -> int:
    """Make runs with every attempt made and with some skipped; return how many were.

    Each counts as a whole attempt, so that a turn tries the same pods.
    """
    monkeypatch.setattr(engine, "IN_PASSING", 1)
    spared = 0
    known = TurnRefusals.of

    def counted(self: TurnRefusals, attempt: Attempt) -> Decision | None:
        nonlocal spared
        decision = known(self, attempt)
        spared += decision is not None
        return decision

    for seed in seeds:
        with monkeypatch.context() as patch:
            patch.setattr(TurnRefusals, "of", lambda _self, _attempt: None)
            tried = steps(rig_of, seed)
        with monkeypatch.context() as patch:
            patch.setattr(TurnRefusals, "of", counted)
            assert tried == steps(rig_of, seed), seed
    return spared


def test_equivalent_pods_get_the_message_that_each_would_get(monkeypatch: pytest.MonkeyPatch):
    """Twelve runs, effect by effect: conditions, events, nominations, evictions."""
    assert compare(equal_pods_under_faults, range(12), monkeypatch) > 20


@pytest.mark.parametrize("batch", batches(10, 20, 10))
def test_groups_and_preemptors_change_the_messages_of_pods(
    batch: int, monkeypatch: pytest.MonkeyPatch
):
    """The invariant holds with pods in groups."""
    assert compare(groups, range(batch * 10, batch * 10 + 10), monkeypatch) > 5


def test_pods_with_claims_are_tried_each_on_its_own(monkeypatch: pytest.MonkeyPatch):
    """With and without the cache of rejections, pods with resource claims get equal results."""
    compare(test_claims_alone.run_moves, range(10), monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 6000, 250))
def test_equal_pods_at_length(first: int, monkeypatch: pytest.MonkeyPatch):
    """The cache of rejections changes no result in five thousand runs."""
    compare(equal_pods_under_faults, range(first, first + 250), monkeypatch)
