"""A real Prometheus that scrapes as the chart's ServiceMonitor defines, and the queries to it.

Time runs sixty times faster: it scrapes every second, and minutes of the rules are seconds.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.apiserver.processes import free_ports, running

PROMETHEUS = shutil.which(
    "prometheus", path=os.environ.get("KUBEBUILDER_ASSETS", "") + os.pathsep + os.environ["PATH"]
)
Json = dict[str, Any]


class Prometheus:
    """The questions; `target` is where the daemon listens."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def instant(self, query: str) -> list[Json]:
        """Return the present series of a query; an invalid query is an error."""
        return await self._ask("query", {"query": query})

    async def over(self, query: str, start: float, end: float, step: float) -> list[Json]:
        """Return the series of a query over a time."""
        times = {"start": str(start), "end": str(end), "step": str(step)}
        return await self._ask("query_range", {"query": query, **times})

    async def firing(self) -> set[str]:
        """Return the names of the alerts that fire now."""
        return {
            one["metric"]["alertname"] for one in await self.instant('ALERTS{alertstate="firing"}')
        }

    async def _ask(self, path: str, given: dict[str, str]) -> list[Json]:
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self._url}/api/v1/{path}", data=given) as answer,
        ):
            text = await answer.text()
        found = json.loads(text)
        assert "success" == found["status"], f"{given['query']}: {text}"
        result: list[Json] = found["data"]["result"]
        return result


@contextmanager
def prometheus(
    folder: Path, monitor: Json, rules: Json, target: str, token: str
) -> Iterator[Prometheus]:
    """Run a Prometheus with a ServiceMonitor and a PrometheusRule of the chart."""
    (folder / "token").write_text(token)
    (folder / "rules.yaml").write_text(hurried(yaml.safe_dump(rules["spec"])))
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [scrape(monitor, target, folder / "token")],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    (port,) = free_ports(1)
    command = [
        str(PROMETHEUS),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with running("prometheus", command, folder / "prometheus.log"):
        yield Prometheus(f"http://127.0.0.1:{port}")


def scrape(monitor: Json, target: str, token: Path) -> Json:
    """Return the scrape configuration that the operator makes of a ServiceMonitor, for one address
    and at our pace.
    """
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint.keys() <= {
        "port", "scheme", "interval", "scrapeTimeout", "honorLabels", "bearerTokenFile", "tlsConfig"
    }  # fmt: skip
    assert endpoint["bearerTokenFile"]
    labels = {"namespace": monitor["metadata"]["namespace"], "service": monitor["metadata"]["name"]}
    return {
        "job_name": monitor["metadata"]["name"],
        "scheme": endpoint["scheme"],
        "honor_labels": endpoint["honorLabels"],
        "tls_config": {"insecure_skip_verify": endpoint["tlsConfig"]["insecureSkipVerify"]},
        "authorization": {"credentials_file": str(token)},
        "scrape_interval": "1s",
        "scrape_timeout": "1s",
        "static_configs": [{"targets": [target], "labels": labels}],
    }


def hurried(rules: str) -> str:
    """Return rules in which minutes are seconds; amounts of seconds shrink with them."""
    text = re.sub(r"(?<=\d)m\b", "s", rules)
    return text.replace("> 900", "> 15")


def filled_in(query: str) -> str:
    """Return a query with its variables as a reader would have chosen them."""
    for name, value in (
        ("$__rate_interval", "10s"),
        ("$cluster", ".*"),
        ("$namespace", "sys"),
        ("$job", "trellis"),
    ):
        query = query.replace(name, value)
    return query
