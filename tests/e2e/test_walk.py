"""A newcomer's four questions about a live GPU cluster of 300 nodes, by commands and by the page.

The questions and answers are those of tests/unit/cli/test_walk.py and tests/page/test_walk.py; the
cluster is a sandbox or a real kube-apiserver whose nodes have no kubelet, and a daemon leads.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.apiserver.processes import free_ports
from tests.e2e.livecluster import LiveCluster, daemon
from tests.e2e.podgroups import served
from tests.e2e.test_page import come_in
from tests.page.browser import PROGRAM, browser
from tests.page.test_walk import QUESTIONS as BY_PAGE
from tests.page.test_walk import walk
from tests.unit.cli import gpucluster
from tests.unit.cli.gpucluster import GPU
from tests.unit.cli.test_walk import MOST, QUESTIONS

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(420),
    pytest.mark.allow_blocking("a test reads its files"),
]
NODES, AT_ONCE = 300, 20
PATHS = {
    "Node": "/api/v1/nodes",
    "Namespace": "/api/v1/namespaces",
    "Pod": "/api/v1/namespaces/research/pods",
}
# The walk shows the whole cluster.
OWN_CLUSTER = True


@pytest.fixture
async def led(cluster: LiveCluster, tmp_path: Path) -> AsyncIterator[tuple[LiveCluster, str]]:
    """Give the cluster and the address of the daemon, which has tried each pod that waits."""
    await fill(cluster)
    config = tmp_path / "leading.yaml"
    config.write_text(await leading(cluster))
    async with daemon(cluster, tmp_path, config=config) as url:
        await cluster.until(lambda: is_settled(cluster))
        yield cluster, url


async def leading(cluster: LiveCluster) -> str:
    """Return the configuration of the profile `gpu`, which leaves racks without a gang whole."""
    _, text, _ = await cluster.run("config", "defaults", "--profile", "gpu")
    scheduler, own = yaml.safe_load_all(text)
    own["operators"] = {"enabled": False}
    own["page"]["port"] = free_ports(1)[0]
    return yaml.safe_dump_all([scheduler, own])


async def fill(cluster: LiveCluster) -> None:
    """Create the objects of the cluster: nodes, groups, pods on nodes, pods that wait."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "research"}}
    api = await served(partial(read, cluster))
    paths = PATHS | {"PodGroup": api.path("research")}
    objects = [space, *map(posted, gpucluster.cluster(NODES))]
    objects = [api.written(one) if one["kind"] == "PodGroup" else one for one in objects]
    ranks = {"Namespace": 0, "Node": 1, "PodGroup": 2, "Pod": 3}
    objects.sort(key=lambda one: ranks[one["kind"]])
    for _, group in itertools.groupby(objects, lambda one: one["kind"]):
        those = list(group)
        for at in range(0, len(those), AT_ONCE):
            await asyncio.gather(*(create(cluster, paths, one) for one in those[at : at + AT_ONCE]))


def posted(raw: dict[str, Any]) -> dict[str, Any]:
    """Return an object as a user posts it: a limit for each GPU, no empty `nodeName`, no status."""
    if raw["kind"] == "Node":
        raw["status"]["capacity"] = raw["status"]["allocatable"]
    if raw["kind"] == "Pod":
        raw.pop("status", None)
        if not raw["spec"].get("nodeName"):
            raw["spec"].pop("nodeName", None)
        for one in raw["spec"]["containers"]:
            requests = one["resources"]["requests"]
            one["resources"]["limits"] = {name: requests[name] for name in requests if name == GPU}
    return raw


async def read(cluster: LiveCluster, path: str) -> dict[str, Any]:
    """Return the server's response to a path."""
    async with cluster.session.get(cluster.url + path) as answer:
        found: dict[str, Any] = await answer.json()
        return found


async def create(cluster: LiveCluster, paths: Mapping[str, str], raw: dict[str, Any]) -> None:
    """Create one object by the path of its kind."""
    async with cluster.session.post(cluster.url + paths[raw["kind"]], json=raw) as answer:
        assert 201 == answer.status, await answer.text()


async def is_settled(cluster: LiveCluster) -> bool:
    """Return whether the pods without a node are those that fit nowhere, each with a condition."""
    pods = (await read(cluster, PATHS["Pod"]))["items"]
    waiting = [one for one in pods if not one["spec"].get("nodeName")]
    names = {one["metadata"]["name"].rstrip("0123456789") for one in waiting}
    has_reasons = all(one.get("status", {}).get("conditions") for one in waiting)
    return names == {"huge-", "debug-shell", "too-many-gpu", "orphan"} and has_reasons


async def test_the_command_line_answers_within_three_commands(
    led: tuple[LiveCluster, str], monkeypatch: pytest.MonkeyPatch
):
    """Each question is answered by at most three commands, in the default output at 120 columns,
    with the daemon's configuration.
    """
    cluster, _ = led
    monkeypatch.setenv("COLUMNS", "120")
    for question, steps in QUESTIONS.items():
        assert len(steps) <= MOST
        for words, answer in steps:
            code, out, err = await cluster.run(*words.split())
            assert code in (0, 3), (question, words, out, err)
            assert answer in out, (question, words, out, err)


@pytest.mark.skipif(not PROGRAM, reason="needs chromium (Debian's package of that name)")
async def test_the_page_answers_within_three_actions(led: tuple[LiveCluster, str], chromium: str):
    """After a login with the user's token, the answer is visible; the console has no error."""
    cluster, url = led
    users = yaml.safe_load(cluster.kubeconfig.read_text())["users"]
    async with browser(chromium) as tab:
        await tab.look(width=1400, height=900)
        await tab.open(f"{url}/ui")
        await tab.until("document.querySelector('#token')")
        refused = len(tab.problems)
        await come_in(tab, users[0]["user"]["token"])
        for question in BY_PAGE:
            await tab.run("location.hash = '#/'")
            await tab.until("document.querySelector('.unit button')")
            await walk(tab, question)
        assert [] == tab.problems[refused:]
