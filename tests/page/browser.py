"""A headless Chromium, controlled over its DevTools protocol; needs only the program."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import aiohttp
import pytest

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or ""


class Tab:
    """One tab. `problems` are its console's errors, including violated policies."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.problems: list[str] = []

    async def read(self) -> None:
        """Hand on answers until the socket is closed."""
        async for message in self._socket:
            reported = json.loads(message.data)
            if "id" in reported:
                self._answers.pop(reported["id"]).set_result(reported)
            elif reported["method"] == "Runtime.exceptionThrown":
                self.problems.append(json.dumps(reported["params"]["exceptionDetails"])[:500])
            elif (
                reported["method"] == "Log.entryAdded"
                and reported["params"]["entry"]["level"] == "error"
            ):
                self.problems.append(reported["params"]["entry"]["text"])

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        reported = await answer
        assert "error" not in reported, f"{method}: {reported['error']}"
        return dict(reported["result"])

    async def run(self, expression: str) -> Any:
        """Return the value of an expression in the page; a promise is awaited."""
        reported = await self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in reported, reported
        return reported["result"].get("value")

    async def until(self, expression: str, timeout_s: float = 30.0) -> None:
        """Wait for an expression to become true, evaluated once per frame."""
        turn = f"if ((() => {{ return {expression}; }})()) return true;"
        late = f"if (performance.now() - began > {timeout_s * 1000}) return null;"
        loop = f"for (;;) {{ {turn} {late} await new Promise((f) => setTimeout(f, 16)); }}"
        found = await self.run(f"(async () => {{ const began = performance.now(); {loop} }})()")
        text = "document.body.innerText.slice(0, 800)"
        assert found, f"never true: {expression}; {self.problems}; {await self.run(text)}"

    async def open(self, address: str) -> None:
        """Go to an address and wait until its document is loaded."""
        await self.send("Page.navigate", url="about:blank")
        await self.until("location.href === 'about:blank'")
        await self.send("Page.navigate", url=address)
        await self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    async def look(self, *, width: int = 1280, height: int = 800, dark: bool = False) -> None:
        """Take a size in pixels and a colour scheme."""
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[scheme])

    async def picture(self, file: Path) -> None:
        """Write the visible part as a PNG."""
        shot = await self.send("Page.captureScreenshot", format="png")
        data = base64.b64decode(shot["data"])
        await asyncio.to_thread(file.write_bytes, data)


@contextmanager
def launched(folder: Path) -> Iterator[str]:
    """Run Chromium with a profile in `folder` and give the URL of its DevTools."""
    with subprocess.Popen(
        [
            PROGRAM,
            "--headless=new",
            "--no-sandbox",  # root may not use it, and the page is ours
            "--ignore-certificate-errors",  # a daemon makes its own
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--remote-debugging-port=0",
            f"--user-data-dir={folder}",
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stderr is not None
        # Without a reader, a full pipe would block Chromium.
        reader = Thread(target=process.stderr.read, daemon=True)
        try:
            listening = (
                re.search(r"DevTools listening on (ws://\S+)", line) for line in process.stderr
            )
            found = next(filter(None, listening), None)
            assert found, "chromium has ended"
            reader.start()
            yield found[1]
        finally:
            process.kill()
            if reader.is_alive():
                reader.join()


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run one Chromium for all tests of a process and give the URL of its DevTools."""
    with launched(tmp_path_factory.mktemp("chromium")) as address:
        yield address


@asynccontextmanager
async def browser(chromium: str) -> AsyncIterator[Tab]:
    """Give a tab with a profile of its own (cookies, storage) in the running Chromium."""
    async with (
        aiohttp.ClientSession() as session,
        _connected(session, chromium) as whole,
    ):
        context = (await whole.send("Target.createBrowserContext"))["browserContextId"]
        try:
            target = await whole.send(
                "Target.createTarget", url="about:blank", browserContextId=context
            )
            server = chromium.split("/devtools", maxsplit=1)[0]
            address = f"{server}/devtools/page/{target['targetId']}"
            async with _connected(session, address) as tab:
                for domain in ("Page", "Runtime", "Log"):
                    await tab.send(f"{domain}.enable")
                yield tab
        finally:
            await whole.send("Target.disposeBrowserContext", browserContextId=context)


@asynccontextmanager
async def _connected(session: aiohttp.ClientSession, address: str) -> AsyncIterator[Tab]:
    """Connect to a target of DevTools."""
    async with session.ws_connect(address, max_msg_size=0) as socket:
        tab = Tab(socket)
        reading = asyncio.create_task(tab.read())
        try:
            yield tab
        finally:
            await socket.close()
            await reading
