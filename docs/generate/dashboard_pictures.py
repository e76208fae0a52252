"""Draw docs/images/dashboard-*.svg: the chart's dashboards over some minutes of a busy sandbox.

Run `python -m docs.generate.dashboard_pictures` from the project's root with Prometheus and helm in
.tools/bin (`make tools`). The cluster, the daemon and the Prometheus are those of the test
tests/monitoring; each line of a picture is the answer to a query of the dashboard.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from docs.generate.panel_svg import Json, Line, legend, picture
from scheduler.base import logs
from scheduler.base.clock import RealClock
from tests.monitoring.load import lived_in
from tests.monitoring.prometheus import Prometheus, filled_in
from tests.monitoring.situations import (
    a_foreign_pod_takes_a_zone,
    a_plugin_raises,
    a_rival_binds_our_pods,
    agents_fall_silent,
    another_client_overcommits,
    the_solver_has_no_time,
    the_wire_breaks,
)
from tests.monitoring.watched import pause, watched

IMAGES = Path("docs/images")
STEP_S = 2
# Faults that fill the panels about them: (start, duration, fault), in seconds.
FAULTS = (
    (4, 14, a_foreign_pod_takes_a_zone),
    (20, 8, a_plugin_raises),
    (32, 10, the_solver_has_no_time),
    (45, 8, another_client_overcommits),
    (56, 11, agents_fall_silent),
    (70, 3, the_wire_breaks),
    (77, 9, a_rival_binds_our_pods),
)
ALL_S = 96


async def lines_of(prometheus: Prometheus, panel: Json, start: float, end: float) -> list[Line]:
    """Return the lines of a panel between two times (s)."""
    found = []
    moments = round((end - start) / STEP_S)
    for target in panel["targets"]:
        for series in await prometheus.over(filled_in(target["expr"]), start, end, STEP_S):
            known = {
                round((moment - start) / STEP_S): float(value)
                for moment, value in series["values"]
                if value not in ("NaN", "+Inf")
            }
            values = tuple(known.get(place) for place in range(moments + 1))
            if known:
                found.append(Line(legend(target["legendFormat"], series["metric"]), values))
    return found


async def main() -> None:
    """Run the sandbox with faults, evaluate every query, and write the pictures."""
    logs.configure(level="error")
    clock = RealClock()
    with tempfile.TemporaryDirectory() as folder:
        async with watched(Path(folder)) as (one, prometheus), AsyncExitStack() as stack:
            await one.start()
            await stack.enter_async_context(lived_in(one))
            await pause(11)
            start = clock.now()
            for begins, lasts, fault in FAULTS:
                await pause(max(0.0, start + begins - clock.now()))
                async with fault(one):
                    await pause(lasts)
            await pause(max(0.0, start + ALL_S - clock.now()))
            end = start + ALL_S
            for file, dashboard in one.dashboards().items():
                lines = {
                    panel["id"]: await lines_of(prometheus, panel, start, end)
                    for panel in dashboard["panels"]
                    if panel["type"] != "row"
                }
                name = file.removeprefix("trellis-").removesuffix(".json")
                path = IMAGES / f"dashboard-{name}.svg"
                path.write_text(picture(dashboard, lines, ALL_S), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
