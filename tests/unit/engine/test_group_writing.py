"""Writes about groups: which groups are compared again, and when, whatever happens in between."""

from random import Random
from typing import Any

from scheduler.base.meters import Meters
from scheduler.engine.effects import Answer
from scheduler.engine.observation import Observation
from scheduler.framework.calls import ApiCall
from scheduler.framework.groups import GroupStage
from scheduler.groups.cycle.counts import GroupCounts
from scheduler.groups.cycle.writing import SURE_AFTER_S, WRITE_AGAIN_S, Writing


class Planner:
    """Writes one label for each group; records the compared groups."""

    name = "planner"

    def __init__(self):
        self.changed = []
        self.seen = []

    def group_changed(self):
        found, self.changed = self.changed, []
        return found

    def group_reported(self, key, stage, now):
        if stage is GroupStage.CHANGED:
            self.seen.append(key)
        return [ApiCall("PATCH", f"/{key}", {})]

    def group_presence(self, key):
        return 0, 1


class Engine:
    """The part of the engine that `Writing` uses: numbers for effects, an outbox, figures."""

    def __init__(self):
        self.observation = self.groups = self.outbox = self
        self.effects = []

    def new_id(self):
        return len(self.effects)

    def put(self, effect):
        self.effects.append(effect)


def test_each_group_is_looked_at_when_it_is_due_and_only_then():
    """The times equal those in a plain table: after changes, refused requests and a new lease."""
    looks = 0
    for seed in range(300):
        rng = Random(seed)
        planner: Any = Planner()
        engine: Any = Engine()
        writing = Writing(engine, GroupCounts(Observation(Meters(), None)))
        due: dict[str, float] = {}
        written: dict[str, float] = {}
        known: set[str] = set()
        unsure: dict[str, float] = {}
        now = 0.0
        for _ in range(30):
            now += rng.choice((0.0, 1.0, 3.0))
            move = rng.choice(("change", "change", "refuse", "lead", "nothing"))
            if move == "change":
                planner.changed = rng.sample("abc", rng.randint(1, 3))
            elif move == "refuse" and engine.effects:
                effect = rng.choice(engine.effects)
                if writing.answer(Answer(effect.id, 500), now):  # else it was answered before
                    key = effect.path[1:]
                    written.pop(key, None)
                    due[key] = now + WRITE_AGAIN_S
            elif move == "lead":
                writing.leads(now)
                written.clear()
                due.update(dict.fromkeys(known, now))
                unsure = dict.fromkeys(known, now + SURE_AFTER_S)
                unsure = dict.fromkeys(known, now + SURE_AFTER_S)
            expected = sorted({*planner.changed, *(key for key, at in due.items() if at <= now)})
            planner.seen = []
            changed, planner.changed = dict.fromkeys(planner.changed, planner), []
            writing.note(changed)
            writing.compare((), now, may_decide=True)
            looks += len(expected)
            known.update(expected)

            assert expected == sorted(planner.seen), seed
            written = {key: at for key, at in written.items() if now < at + WRITE_AGAIN_S}
            for key in expected:
                due.pop(key, None)
                if key in written:
                    due[key] = written[key] + WRITE_AGAIN_S
                else:
                    written[key] = now
                if now < unsure.get(key, now):  # earlier writes may be lost
                    due[key] = unsure[key]
            assert min(due.values(), default=None) == writing.next_deadline(), seed
    assert looks > 1000
