"""A server on a real socket that follows a script: answers, wrong answers, cuts and hangs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Conversation:
    """One connection, with a script's control over it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def answer(
        self, code: int, body: object = b"", headers: dict[str, str] | None = None
    ) -> None:
        """Send a whole answer; anything but bytes is sent as JSON."""
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        lines = [f"HTTP/1.1 {code} Whatever", f"Content-Length: {len(content)}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        await self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + content)

    def reset(self) -> None:
        """Break the connection."""
        self.writer.transport.abort()

    async def until_gone(self) -> None:
        """Wait until the client has closed the connection."""
        while await self.reader.read(1024):
            pass


Script = Callable[[Asked, Conversation], Awaitable[None]]


@dataclass
class ScriptedServer:
    """The requests received by the server; `url` is its address."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0


@asynccontextmanager
async def scripted(script: Script) -> AsyncIterator[ScriptedServer]:
    """Serve `script` for every request until the block ends."""
    seen = ScriptedServer()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        seen.connections += 1
        try:
            while (asked := await _read(reader)) is not None:
                seen.asked.append(asked)
                await script(asked, Conversation(reader, writer))
                if writer.is_closing():
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    seen.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield seen
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.splitlines()
    method, path, _ = first.split()
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Asked(method, path, headers, body)
