"""A headless Chromium, controlled over its DevTools protocol; needs only the program."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

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


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Tab]:
    """Start Chromium with a profile of its own in `folder` and give its tab."""
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        "--headless=new",
        "--no-sandbox",  # root may not use it, and the page is ours
        "--ignore-certificate-errors",  # a daemon makes its own
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--remote-debugging-port=0",
        f"--user-data-dir={folder}",
        "about:blank",
        stderr=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        port = await _port(folder / "DevToolsActivePort", process)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                pages = [one for one in await answer.json() if one["type"] == "page"]
            where = pages[0]["webSocketDebuggerUrl"]
            async with session.ws_connect(where, max_msg_size=0) as socket:
                tab = Tab(socket)
                reading = asyncio.create_task(tab.read())
                for domain in ("Page", "Runtime", "Log"):
                    await tab.send(f"{domain}.enable")
                yield tab
                await socket.close()
                await reading
    finally:
        process.kill()
        await process.wait()


async def _port(file: Path, process: asyncio.subprocess.Process) -> int:
    """Wait for the file in which Chromium writes its port."""
    for _ in range(600):
        assert process.returncode is None, "chromium has ended"
        text = await asyncio.to_thread(lambda: file.read_text() if file.exists() else "")
        if "\n" in text:
            return int(text.splitlines()[0])
        await asyncio.wait({asyncio.create_task(process.wait())}, timeout=0.1)
    raise AssertionError("chromium reports no port")
