"""The daemon's page in Chromium: access by token, the slider to the past, and a decision log."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from scheduler.cli.inputs.cmdio import options, setups
from scheduler.cli.inputs.logged import LogView
from scheduler.cli.verbs.start.ui import page_of_files
from scheduler.engine.attempt.cycle import Ties
from tests.apiserver.processes import free_ports
from tests.e2e.livecluster import QUIET, LiveCluster, daemon
from tests.page.browser import PROGRAM, Tab, browser
from tests.page.test_page import AXE

pytestmark = [
    pytest.mark.skipif(not PROGRAM, reason="needs chromium (Debian's package of that name)"),
    pytest.mark.allow_blocking("a test reads its files"),
]
WAITING = (
    "[...document.querySelectorAll('.facts div')]"
    ".find((one) => one.innerText.startsWith('Waiting'))?.innerText"
)
# The page shows the whole cluster: the empty view of groups needs a cluster without groups.
OWN_CLUSTER = True


async def furnish(cluster: LiveCluster) -> None:
    """Create capacity for one of two pods; a third pod belongs to another scheduler and is not
    shown.
    """
    await cluster.nodes("2")
    await cluster.pod("foreign", scheduler="another-scheduler")
    await cluster.pod("first", requests={"cpu": "1500m"})
    await cluster.until(lambda: cluster.is_bound("first"))
    await cluster.pod("second", requests={"cpu": "1500m"})


async def come_in(tab: Tab, token: str) -> None:
    """Enter the user's token."""
    await tab.run(
        f"(() => {{ document.querySelector('#token').value = '{token}';"
        " document.querySelector('button.main').click(); })()"
    )
    await tab.until("document.querySelector('.unit button')")


async def slide(tab: Tab, where: str) -> None:
    """Move the slider as a hand does."""
    await tab.run(
        f"(() => {{ const one = document.querySelector('#moment'); one.value = {where};"
        " one.dispatchEvent(new Event('input')); })()"
    )


async def look_back(tab: Tab) -> None:
    """Go to the first decision and back: the pod that waits now was not there yet."""
    await tab.run("location.hash = '#/time'")
    await tab.until("document.querySelectorAll('.moment').length >= 2")
    await tab.until(f"{WAITING} === 'Waiting\\n1'")
    assert "Now" == await tab.run("document.querySelector('output').innerText")
    await slide(tab, "'0'")
    await tab.until(f"{WAITING} === 'Waiting\\n0'")
    await tab.until("document.querySelector('#state').innerText.startsWith('As it was at')")
    await tab.run("location.hash = '#/queue'")
    await tab.until("document.body.innerText.includes('No pod is waiting')")
    await tab.run("document.querySelector('#state button').click()")
    await tab.until("document.body.innerText.includes('second')")


@asynccontextmanager
async def tunnel(port: int) -> AsyncIterator[int]:
    """Forward another port of this machine to `port`, as kubectl port-forward does.

    No kubelet runs here.
    """

    async def hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inside, outside = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(hand_on(reader, outside), hand_on(inside, writer))

    server = await asyncio.start_server(lead, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()  # without waiting: the browser's stream of events is still open


async def test_the_daemons_page_and_its_past(cluster: LiveCluster, tmp_path: Path, chromium: str):
    """Without a token no data is shown; with one the data that its user may list; the log shows the
    same.
    """
    log, config = tmp_path / "log", tmp_path / "config.yaml"
    (port,) = free_ports(1)
    text = f"{QUIET}decisionLog: {{path: {log}}}\npage: {{port: {port}}}\n"
    await asyncio.to_thread(config.write_text, text)
    users = yaml.safe_load(await asyncio.to_thread(cluster.kubeconfig.read_text))["users"]
    token = users[0]["user"]["token"]
    async with browser(chromium) as tab:
        async with daemon(cluster, tmp_path, config=config) as url:
            await furnish(cluster)
            await tab.look()
            await tab.open(f"{url}/ui")
            await tab.until("document.querySelector('#token')")
            assert "Not signed in" in await tab.run("document.body.innerText")
            refused = len(tab.problems)
            await come_in(tab, token)
            await look_back(tab)
            await tab.run("location.hash = '#/groups'")
            await tab.until("document.body.innerText.includes('No groups')")
            if AXE.exists():
                await tab.run("location.hash = '#/time'")
                await tab.until("document.querySelector('.moment')")
                await tab.run(AXE.read_text())
                found = await tab.run(
                    "axe.run().then((result) => result.violations.filter((one) =>"
                    " ['serious', 'critical'].includes(one.impact)).map((one) => one.id))"
                )
                assert [] == found
            assert [] == tab.problems[refused:]
            async with tunnel(port) as here:
                await tab.open(f"http://localhost:{here}/")
                await tab.until("document.querySelector('#token')")
                refused = len(tab.problems)
                await come_in(tab, token)
                assert f"http://localhost:{here}/ui/" == await tab.run(
                    "location.origin + location.pathname"
                )
                assert [] == tab.problems[refused:]
        past = await asyncio.to_thread(LogView, str(log))
        wanted = options("", Ties.UID, None, details=False)
        async with page_of_files(past.snapshot(), setups(""), wanted, past=past) as address:
            await tab.open(address)
            await tab.until("document.querySelector('.unit button')")
            await look_back(tab)
