"""The runner: pauses, health, and no exception leaves it."""

import asyncio
import logging
from random import Random
from typing import Any, NoReturn

import pytest

from operators.api import Connection
from operators.health import OperatorsHealth
from operators.kopflog import kopf_logs_redirected
from operators.run import OperatorInputs, keep_running, restart_pause_s, run_operators
from operators.settings import OperatorsSettings
from scheduler.base.clock import ManualClock
from scheduler.base.meters import Meters
from scheduler.state.cluster import Cluster
from scheduler.state.view import LiveView

NAME = "networktopology"


class SilentServer:
    """A client and credentials of an API server that does not answer."""

    access: Any = None

    async def refresh(self, *, force: bool = False) -> bool:
        return force

    async def request(self, *_: Any, **__: Any) -> "SilentServer":
        return self

    code, body, message = 0, b"", "connection refused"


class Setting:
    """A test setting whose operators have no server."""

    def __init__(self, **settings: Any) -> None:
        self.meters = Meters()
        self.clock = ManualClock(1000.0)
        self.health = OperatorsHealth(self.meters, self.clock)
        self.inputs = OperatorInputs(
            settings=OperatorsSettings(**settings),
            view=LiveView(Cluster()),
            connection=Connection(SilentServer(), SilentServer()),
            health=self.health,
            clock=self.clock,
            random=Random(1),
        )

    def metrics(self) -> dict[str, float]:
        return {
            sample.labels[0]: sample.value
            for spec, samples in self.meters.collect()
            if spec.name == "trellis_operator_healthy"
            for sample in samples
            if isinstance(sample.value, float)
        }


async def test_pauses_double_up_to_the_limit_and_are_spread():
    """Between half and the whole of 1, 2, 4 ... seconds, never above the limit."""
    inputs = Setting(restart_limit_s=60.0).inputs
    for crashes in (1, 2, 5, 40, 10_000):
        whole = min(2.0 ** min(crashes - 1, 30), 60.0)
        pauses = [restart_pause_s(crashes, inputs) for _ in range(50)]

        assert all(whole / 2 <= pause <= whole for pause in pauses)
        assert len(set(pauses)) > 40


@pytest.mark.looptime
async def test_an_operator_that_crashes_starts_again():
    """The operator's pauses grow, an operator that ran for long starts with short ones, and each
    restart is logged.
    """
    setting = Setting()
    loop = asyncio.get_running_loop()
    setting.health.enter(NAME, "starting")
    began: list[float] = []
    durations_s = [0.0, 0.0, 0.0, 0.0, 3600.0, 0.0]
    enough = asyncio.Event()

    async def run() -> NoReturn:
        began.append(loop.time())
        if len(began) > len(durations_s):
            enough.set()
            await asyncio.Event().wait()
        await asyncio.sleep(durations_s[len(began) - 1])
        raise ValueError(f"crash {len(began)}")

    task = asyncio.create_task(keep_running(NAME, run, setting.inputs))
    await enough.wait()
    (record,) = setting.health.records.values()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    pauses = [
        later - start - duration_s
        for start, later, duration_s in zip(began, began[1:], durations_s, strict=False)
    ]
    for pause, whole in zip(pauses, [1, 2, 4, 8, 1, 2], strict=True):
        assert whole / 2 <= pause <= whole + 0.01
    assert (6, "ValueError: crash 6") == (record.restarts, record.last_error)
    assert 6 == setting.meters.operator_restarts.labels(NAME).value


@pytest.mark.looptime
async def test_an_operator_that_just_ends_is_started_again_too():
    """Ending without an error is no reason to stay away."""
    setting = Setting()
    setting.health.enter(NAME, "starting")
    twice = asyncio.Event()
    runs = 0

    async def run() -> None:
        nonlocal runs
        runs += 1
        if runs == 3:
            twice.set()

    task = asyncio.create_task(keep_running(NAME, run, setting.inputs))
    await twice.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert "ended by itself" == next(iter(setting.health.records.values())).last_error


@pytest.mark.looptime
async def test_without_an_api_server_it_is_down_and_goes_on():
    """The health check names the operator and the cause; cancellation ends it as healthy."""
    setting = Setting(enabled=(NAME, "nosuch"))
    inputs = setting.inputs
    task = asyncio.create_task(
        run_operators(inputs.settings, inputs.view, inputs.connection, inputs.health, inputs.clock)
    )
    await asyncio.sleep(300)

    assert "connection refused" in str(setting.health.check())
    assert NAME in str(setting.health.check())
    assert setting.health.check()
    assert {NAME: 0.0} == setting.metrics()
    assert next(iter(setting.health.records.values())).restarts > 5
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert setting.health.check() is None
    assert {} == setting.metrics()


def test_health_keeps_the_time_of_the_last_change():
    """`since` moves with the state; a tolerated error is reported beside it."""
    setting = Setting()
    health = setting.health
    health.enter(NAME, "waiting")
    setting.clock.advance(5)
    health.enter(NAME, "waiting")
    health.note_error(NAME, "later")
    (record,) = health.records.values()

    assert ("waiting", 1000.0, "later") == (record.state, record.since, record.last_error)
    assert health.check() is None
    assert {NAME: 1.0} == setting.metrics()


def test_kopfs_log_is_taken_and_given_back(caplog: pytest.LogCaptureFixture):
    """kopf's records do not reach the root logger meanwhile, and afterwards the logger is as
    before.
    """
    logger = logging.getLogger("kopf")
    before = (logger.level, logger.propagate, list(logger.handlers))
    with kopf_logs_redirected():
        logging.getLogger("kopf.activities").warning("redirected")
        logging.getLogger("kopf.objects").error("redirected too")
    logging.getLogger("kopf.activities").warning("own again")

    assert before == (logger.level, logger.propagate, list(logger.handlers))
    assert ["own again"] == caplog.messages
