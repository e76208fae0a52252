"""`trellis run` follows its configuration file: mounted ConfigMaps, mistakes, and back again."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp

from tests.e2e.livecluster import QUIET, LiveCluster, daemon

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
OURS = QUIET.partition("---")[2]


def text(*profiles: str) -> str:
    """Return a configuration with these profiles, whose leader writes events about its Lease."""
    names = "".join(f"- schedulerName: {name}\n" for name in profiles)
    lease = "leaderElection: {resourceNamespace: default, resourceName: reloading}\n"
    return f"{HEAD}{lease}profiles:\n{names}---{OURS}"


class Mounted:
    """A folder as the kubelet mounts a ConfigMap: `..data` points to the folder of a version."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self.file = folder / "config.yaml"
        folder.mkdir()

    def write(self, content: str) -> None:
        """Swap in a new version, all at once."""
        self._number += 1
        version = self._folder / f"..version-{self._number}"
        version.mkdir()
        (version / "config.yaml").write_text(content)
        link = self._folder / "..data_tmp"
        link.symlink_to(version.name)
        link.replace(self._folder / "..data")
        if not self.file.is_symlink():
            self.file.symlink_to("..data/config.yaml")


async def get(url: str, token: str) -> str:
    """Return the text of a page of the daemon, "" while it is away."""
    try:
        async with (
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session,
            session.get(url, ssl=False) as answer,
        ):
            return await answer.text() if answer.status == 200 else ""
    except aiohttp.ClientError:
        return ""


def token_of(cluster: LiveCluster) -> str:
    """Return the token of the cluster's user."""
    return cluster.session.headers["Authorization"].removeprefix("Bearer ")


async def profiles(cluster: LiveCluster, url: str) -> list[str]:
    """Return the profiles in the daemon's status; none while it is down."""
    page = await get(f"{url}/configz", token_of(cluster))
    config: dict[str, Any] = json.loads(page or "{}").get("componentconfig", {})
    return [one["schedulerName"] for one in config.get("profiles", [])]


async def metric(cluster: LiveCluster, url: str, line: str) -> bool:
    """Return whether a line is among the metrics."""
    return line in (await get(f"{url}/metrics", token_of(cluster))).splitlines()


async def reasons(cluster: LiveCluster) -> dict[str, str]:
    """Return the events about the Lease: reason → message."""
    async with cluster.session.get(f"{cluster.url}/api/v1/namespaces/default/events") as answer:
        items = (await answer.json())["items"]
    return {
        one["reason"]: one["message"]
        for one in items
        if one.get("involvedObject", {}).get("name") == "reloading"
    }


async def test_a_changed_file_is_used(cluster: LiveCluster, tmp_path: Path):
    """A new profile places its pods; an invalid file changes nothing and is reported.

    A valid one is used again.
    """
    mounted = Mounted(tmp_path / "etc")
    await asyncio.to_thread(mounted.write, text("trellis"))
    await cluster.nodes("8")
    await cluster.pod("waits", scheduler="packer")
    async with daemon(cluster, tmp_path, config=mounted.file) as url:

        async def runs(*wanted: str) -> bool:
            return list(wanted) == await profiles(cluster, url)

        await cluster.until(lambda: runs("trellis"))
        await asyncio.to_thread(mounted.write, text("trellis", "packer"))
        await cluster.until(lambda: runs("trellis", "packer"))
        await cluster.until(lambda: cluster.is_bound("waits"))
        assert await metric(cluster, url, 'trellis_config_reloads_total{result="success"} 1.0')
        assert await metric(cluster, url, "trellis_config_last_reload_successful 1.0")

        await asyncio.to_thread(mounted.write, text("trellis").replace("profiles", "profils"))
        await cluster.until(
            lambda: metric(cluster, url, 'trellis_config_reloads_total{result="error"} 1.0')
        )
        assert await metric(cluster, url, "trellis_config_last_reload_successful 0.0")
        assert await runs("trellis", "packer")
        await cluster.pod("still", scheduler="packer")
        await cluster.until(lambda: cluster.is_bound("still"))

        await asyncio.to_thread(mounted.write, text("trellis"))
        await cluster.until(lambda: runs("trellis"))
        await cluster.until(
            lambda: metric(cluster, url, "trellis_config_last_reload_successful 1.0")
        )
        reported = await reasons(cluster)
    assert "the configuration file has changed" in reported["ConfigurationReloaded"]
    assert 'unknown field "profils"' in reported["ConfigurationNotReloaded"]
