"""The Prometheus provider against a real server that scrapes node-exporter and cAdvisor."""

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from operators.metricproviders import (
    CPU,
    MEMORY,
    FigureName,
    FigureSnapshot,
    HttpSettings,
    HttpSource,
    LastGood,
    Prometheus,
    usual_queries,
)
from scheduler.base.clock import RealClock
from tests.apiserver.patience import asked
from tests.apiserver.processes import free_ports, running

ASSETS = os.environ.get("KUBEBUILDER_ASSETS", "")
SERVER = shutil.which("prometheus", path=f"{ASSETS}{os.pathsep}{os.environ.get('PATH', '')}")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(SERVER is None, reason="needs a prometheus server: run `make tools`"),
    pytest.mark.allow_blocking("starts a program"),
]
CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs:
- job_name: node
  static_configs:
  - targets: ["127.0.0.1:{port}"]
    labels: {{node: n1}}
"""


class Exporter:
    """An exporter of two CPUs, one and a half busy, and a pod that uses a quarter, until it is
    stopped.
    """

    def __init__(self) -> None:
        self.began = RealClock().now()
        self.is_silent = False

    async def answer(self, _request: web.Request) -> web.Response:
        if self.is_silent:
            raise web.HTTPServiceUnavailable
        passed = RealClock().now() - self.began
        idle, busy, pod = 1000 + 0.5 * passed, 1000 + 1.5 * passed, 100 + 0.25 * passed
        of_pod = 'namespace="default",pod="p",container="c"'
        lines = [
            f'node_cpu_seconds_total{{cpu="0",mode="idle"}} {idle}',
            f'node_cpu_seconds_total{{cpu="0",mode="user"}} {busy}',
            "node_memory_MemTotal_bytes 8e9",
            "node_memory_MemAvailable_bytes 6e9",
            f"container_cpu_usage_seconds_total{{{of_pod}}} {pod}",
            f"container_memory_working_set_bytes{{{of_pod}}} 5e8",
        ]
        return web.Response(text="\n".join(lines) + "\n")


@pytest.fixture
async def exporter() -> AsyncIterator[tuple[Exporter, int]]:
    """Serve the figures."""
    served = Exporter()
    app = web.Application()
    app.router.add_get("/metrics", served.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield served, runner.addresses[0][1]
    await runner.cleanup()


async def test_figures_are_those_of_the_exporters_and_end_with_them(
    exporter: tuple[Exporter, int], tmp_path: Path
):
    """Rates, memory and pods are those of the exporters; a silent exporter's node is left out."""
    served, scraped = exporter
    (port,) = free_ports(1)
    config = tmp_path / "prometheus.yml"
    config.write_text(CONFIG.format(port=scraped))
    command = [
        str(SERVER),
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    clock = RealClock()
    with running("prometheus", command, tmp_path / "prometheus.log"):
        async with HttpSource(HttpSettings(f"http://127.0.0.1:{port}")) as source:
            queries = usual_queries(window_s=8)
            kept = LastGood(Prometheus(source, clock, queries), clock, expires_s=180)

            async def refreshed() -> FigureSnapshot:
                await kept.refresh()
                return kept.current() or FigureSnapshot("none", clock.now())

            def is_whole(found: FigureSnapshot) -> bool:
                sizes = len(found.nodes.get("n1", ())), len(found.pods.get("default/p", ()))
                return sizes == (2, 2)

            found = await asked(refreshed, is_whole, "all figures")
            served.is_silent = True
            # Left out: a rate that its samples do not fill would be too low.
            await asked(refreshed, lambda later: "n1" not in later.nodes, "silence to be noticed")

    node, pod = found.nodes["n1"], found.pods["default/p"]
    assert node[FigureName(CPU)].value == pytest.approx(1.5, abs=0.2)
    assert node[FigureName(MEMORY)].value == 2e9
    assert pod[FigureName(MEMORY)].value == 5e8
    assert pod[FigureName(CPU)].value == pytest.approx(0.25, abs=0.05)
