"""The loop of the sandbox's controllers: no key is lost, none starves, failures are retried."""

import asyncio
from collections.abc import Callable

import pytest

from scheduler.base.clock import ManualClock, RealClock
from scheduler.sandbox.api.status import bad_request
from scheduler.sandbox.controllers.workqueue import ControllerLoop, Interest, WorkQueue
from scheduler.sandbox.kinds.kinds import CONFIGMAPS
from scheduler.sandbox.start import new_store
from scheduler.sandbox.store.collection import StoreChange
from scheduler.sandbox.store.store import ObjectStore


class Recorder:
    """A controller that records the keys that it handled."""

    def __init__(self, act: Callable[[str, float], None] | None = None) -> None:
        self.work_queue = WorkQueue()
        self.acted: list[str] = []
        self._act = act

    def interests(self) -> list[Interest]:
        return [(CONFIGMAPS, self._handle)]

    def act(self, key: str, now: float) -> None:
        self.acted.append(key)
        if self._act:
            self._act(key, now)

    def _handle(self, change: StoreChange) -> None:
        self.work_queue.add(change.stored.key)


def make(clock: ManualClock | None = None) -> ObjectStore:
    return new_store(clock or ManualClock(1000.0), seed=1, with_crds=False)


def put(store: ObjectStore, name: str) -> None:
    store.create(CONFIGMAPS, {"metadata": {"name": name}}, "default")


class TestAgenda:
    def test_a_key_is_there_once(self):
        """However often a key is added, it is returned once, in order of its first arrival."""
        work_queue = WorkQueue()
        for key in ("a", "b", "a"):
            work_queue.add(key)

        assert ["a", "b", None] == [work_queue.pop(0.0) for _ in range(3)]

    def test_the_earliest_time_counts(self):
        """A later time for the same key does not delay it, an earlier one brings it forward."""
        work_queue = WorkQueue()
        work_queue.add_at("a", 5.0)
        work_queue.add_at("a", 9.0)
        work_queue.add_at("a", 3.0)

        assert 3.0 == work_queue.next_due()
        assert work_queue.pop(2.9) is None
        assert "a" == work_queue.pop(3.0)
        assert work_queue.next_due() is None

    def test_a_resting_key_waits(self):
        """A delayed key is due after its delay; unfinished work has no delay."""
        work_queue = WorkQueue()
        work_queue.rest("a", 5.0)
        work_queue.add("a")
        assert work_queue.pop(4.0) is None
        assert "a" == work_queue.pop(5.0)

        work_queue.again("a")
        work_queue.rest("a", 9.0)
        assert "a" == work_queue.pop(6.0)

    def test_retries_are_spaced(self):
        """Failures in a row double the pause, a success resets it."""
        work_queue = WorkQueue()
        due = []
        for _ in range(3):
            work_queue.retry("a", 0.0)
            due.append(work_queue.next_due())
            work_queue.pop(1000.0)
        work_queue.succeeded("a")
        work_queue.retry("a", 0.0)

        assert [0.5, 1.0, 2.0, 0.5] == [*due, work_queue.next_due()]


class TestTurns:
    def test_existing_objects_are_delivered(self):
        """Objects that exist when the loop is made count as added."""
        store = make()
        put(store, "old")
        controller = Recorder()
        ControllerLoop(store, [controller], strict=True).tick()

        assert "default/old" in controller.acted

    def test_a_slice_ends_and_goes_on(self):
        """A turn stops when its slice is over and reports the remaining work."""
        store = make()
        controller = Recorder()
        turns = ControllerLoop(store, [controller], strict=True)
        turns.tick()
        controller.acted.clear()
        for name in ("a", "b", "c"):
            put(store, name)

        assert turns.turn(1000.0, lambda: True)
        assert 1 == len(controller.acted)
        turns.tick()
        assert ["default/a", "default/b", "default/c"] == controller.acted

    def test_no_controller_starves(self):
        """A controller with endless work does not block the others."""
        store = make()
        busy = Recorder(lambda key, _: busy.work_queue.add(key))
        other = Recorder()
        turns = ControllerLoop(store, [busy, other], strict=True)
        left = iter(range(2000))
        turns.turn(1000.0, lambda: next(left, None) is None)

        assert other.acted

    def test_a_refusal_is_tried_again(self):
        """A controller that the store refuses acts again after a pause."""
        clock = ManualClock(1000.0)
        store = make(clock)
        answers = iter([bad_request("no")])

        def act(key: str, now: float) -> None:
            fault = next(answers, None)
            if fault is not None and key == "default/a":
                raise fault

        controller = Recorder(act)
        turns = ControllerLoop(store, [controller])
        turns.tick()
        answers = iter([bad_request("no")])
        put(store, "a")
        turns.tick()
        assert 1 == controller.acted.count("default/a")

        clock.advance(1.0)
        turns.tick()

        assert 2 == controller.acted.count("default/a")

    def test_a_fault_affects_no_other_controller(self):
        """An exception of a controller is counted; writes and other controllers continue."""
        store = make()

        class Broken(Recorder):
            def _handle(self, change: StoreChange) -> None:
                raise RuntimeError(change.stored.key)

        def fail(key: str, now: float) -> None:
            raise RuntimeError(key, now)

        broken, sound = Broken(), Recorder(fail)
        turns = ControllerLoop(store, [broken, sound])
        turns.tick()
        faults = turns.faults
        put(store, "a")
        turns.tick()

        assert "default/a" in sound.acted
        assert faults + 2 == turns.faults

    async def test_it_runs_by_itself(self):
        """The running loop handles writes and due keys, and ends when cancelled."""
        store = new_store(RealClock(), seed=1, with_crds=False)
        acted = asyncio.Event()
        late = asyncio.Event()

        def act(key: str, now: float) -> None:
            if key == "late":
                late.set()
            elif key == "default/a":
                acted.set()
                controller.work_queue.add_at("late", now + 0.01)

        controller = Recorder(act)
        turns = ControllerLoop(store, [controller])
        task = asyncio.create_task(turns.run())
        put(store, "a")
        async with asyncio.timeout(60):
            await acted.wait()
            await late.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        turns.close()
        put(store, "b")
        assert controller.work_queue.next_due() is None
