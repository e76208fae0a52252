"""`DecisionFile`: the decision log on disk, written beside the loop and never by it.

The loop hands over each turn as bytes; a task writes them from a thread, so that a slow disk delays
the log and nothing else.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import BinaryIO

from scheduler.base.errors import InputError
from scheduler.daemon.inbox import Arrived
from scheduler.engine.decisionlog import Header, encode_header, encode_turn
from scheduler.engine.effects import Effects

WRITE_EVERY_S = 0.2


class DecisionFile:
    """Appends turns to a file; `run` writes, `close` writes what is left."""

    def __init__(self, path: str, header: Header) -> None:
        self._path = path
        self._pending = [encode_header(header)]
        self._file: BinaryIO | None = None
        self._under_way: asyncio.Future[None] | None = None

    def record(
        self, now: float, arrived: list[Arrived], cycles: int, effects: tuple[Effects, ...]
    ) -> None:
        """Take one turn; its events have their texts."""
        texts = [text for _, text in arrived if text is not None]
        self._pending.append(encode_turn(now, texts, cycles, effects))

    async def open(self) -> None:
        """Begin a new file; InputError when it cannot be written."""
        try:
            self._file = await asyncio.to_thread(_create, self._path)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", where=self._path) from error

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await asyncio.sleep(WRITE_EVERY_S)
            await self._write()

    async def close(self) -> None:
        """Write what is left and close the file."""
        await self._write()
        if self._file is not None:
            await asyncio.to_thread(self._file.close)

    async def _write(self) -> None:
        # A thread that writes is not ended by cancelling who waits for it: the next one waits as well.
        if self._under_way is not None:
            await asyncio.wait([self._under_way])
        if self._file is None or not self._pending:
            return
        pending, self._pending = self._pending, []
        writing = asyncio.to_thread(_write, self._file, b"".join(pending))
        self._under_way = asyncio.ensure_future(writing)
        await asyncio.shield(self._under_way)


def _create(path: str) -> BinaryIO:
    return Path(path).open("wb")


def _write(file: BinaryIO, data: bytes) -> None:
    file.write(data)
    file.flush()
