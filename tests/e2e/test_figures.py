"""The daemon polls load-watcher and places pods by its figures."""

from pathlib import Path

import pytest
from aiohttp import web

from tests.e2e.livecluster import LiveCluster, daemon

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
profiles:
- plugins: {{multiPoint: {{enabled: [{{name: LoadVariationRiskBalancing, weight: 100}}]}}}}
  pluginConfig:
  - name: LoadVariationRiskBalancing
    args: {{watcherAddress: 'http://127.0.0.1:{port}'}}
---
apiVersion: trellis.dev/v1alpha1
kind: TrellisConfiguration
operators: {{enabled: false}}
"""


@pytest.mark.long
async def test_pods_avoid_the_node_that_load_watcher_calls_busy(
    cluster: LiveCluster, tmp_path: Path
):
    """The larger node would win by capacity; it is busy, and /metrics has the age of this
    figure.
    """
    small, large = await cluster.nodes("4", "16")

    async def answer(_request: web.Request) -> web.Response:
        used = {small: 5, large: 95}
        nodes = {
            name: {"metrics": [{"type": kind, "operator": "AVG", "value": value}]}
            for name, value in used.items()
            for kind in ("CPU",)
        }
        return web.json_response({"timestamp": 0, "data": {"NodeMetricsMap": nodes}})

    app = web.Application()
    app.router.add_get("/watcher", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.format(port=runner.addresses[0][1]))
    try:
        async with daemon(cluster, tmp_path, config=config) as url:

            async def is_shown() -> bool:
                async with cluster.session.get(f"{url}/metrics", ssl=False) as got:
                    return 'source_age_seconds{source="load-watcher"}' in await got.text()

            await cluster.until(is_shown)
            await cluster.pod("p", requests={"cpu": "100m"})
            await cluster.until(lambda: cluster.is_bound("p"))
            path = f"{cluster.url}/api/v1/namespaces/{cluster.ns}/pods/p"
            async with cluster.session.get(path) as got:
                assert small == (await got.json())["spec"]["nodeName"]
    finally:
        await runner.cleanup()
