"""A real Prometheus watches a real daemon: alerts fire and clear, every panel has data."""

from collections.abc import Iterable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from scheduler.base.clock import RealClock
from tests.chart.test_alerts import ALERTS
from tests.monitoring.load import under_load
from tests.monitoring.prometheus import PROMETHEUS, Json, Prometheus, filled_in
from tests.monitoring.situations import ROUNDS, Situation, another_holder_of_the_lease
from tests.monitoring.watched import Watched, pause, watched

PATIENCE_S = 90.0
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(PROMETHEUS is None, reason="Prometheus is not there (make tools)"),
    pytest.mark.allow_blocking("programs are started, files written, beside them nothing happens"),
]


class Alarms:
    """The alerts as they fire and clear."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus

    async def have_fired(self, names: Iterable[str]) -> None:
        """Wait until each of these has fired; some faults end without action meanwhile."""
        missing = set(names)
        deadline = RealClock().now() + PATIENCE_S
        while missing:
            assert RealClock().now() < deadline, f"did not fire: {missing}"
            await pause(0.5)
            missing -= await self._prometheus.firing()

    async def are_silent(self, names: Iterable[str]) -> None:
        """Wait until none of these alerts fires."""
        deadline = RealClock().now() + PATIENCE_S
        while loud := set(names) & await self._prometheus.firing():
            assert RealClock().now() < deadline, f"does not clear: {loud}"
            await pause(0.5)


# No server here rejects writes for overload, no plan of moves is executed, and no profile has
# FragmentationAware; tests/chart/test_alerts.py evaluates these rules on series.
NOT_PROVOKED = {"TrellisWritesRefused", "TrellisMovePlanAborted", "TrellisDevicesUnusable"}


async def provoke(one: Watched, alarms: Alarms, situations: dict[str, Situation]) -> None:
    """Enter the situations until their alerts fire; leave them, and wait until no alert fires."""
    async with AsyncExitStack() as stack:
        for situation in situations.values():
            await stack.enter_async_context(situation(one))
        await alarms.have_fired(situations)
    await alarms.are_silent(situations)


async def empty_panels(
    one: Watched, prometheus: Prometheus, start: float, end: float
) -> list[tuple[str, str, str]]:
    """Return dashboard, panel and legend of each query that has shown no number at all."""
    found = []
    for file, dashboard in one.dashboards().items():
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                series = await prometheus.over(filled_in(target["expr"]), start, end, 1)
                if not any(numbers(each) for each in series):
                    found.append((file, panel["title"], target["legendFormat"]))
    return found


def numbers(series: Json) -> list[float]:
    """Return the values of a series that are numbers."""
    return [float(value) for _, value in series["values"] if value != "NaN"]


async def test_alerts_fire_and_clear_and_panels_show_what_happens(tmp_path: Path):
    """Every alert fires in its own situation; none before and after.

    No query of a dashboard stays empty.
    """
    provoked = {name for situations in ROUNDS for name in situations} | {"TrellisNoLeader"}
    assert {rule["alert"] for rule in ALERTS} == provoked | NOT_PROVOKED
    async with watched(tmp_path) as (one, prometheus):
        alarms, start = Alarms(prometheus), RealClock().now()
        async with another_holder_of_the_lease(one):
            await one.start()
            await alarms.have_fired({"TrellisNoLeader"})
        await alarms.are_silent({"TrellisNoLeader"})
        async with under_load(one):
            await pause(10)
            assert set() == await prometheus.firing()
            for situations in ROUNDS:
                await provoke(one, alarms, situations)
            await alarms.are_silent(provoked)
        assert [] == await empty_panels(one, prometheus, start, RealClock().now())
