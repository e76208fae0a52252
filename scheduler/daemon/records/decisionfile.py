"""`DecisionFile`: the decision log on disk, written beside the loop and never by it.

The loop hands over each turn as bytes; a task writes them from a thread, so that a slow disk delays
the log and nothing else.
"""

import asyncio
from pathlib import Path
from typing import BinaryIO

import msgspec

from scheduler.base.errors import InputError
from scheduler.base.release import Release
from scheduler.daemon.inbox import Arrived
from scheduler.engine.decisionlog import Header, LogBuffer, encode_header
from scheduler.engine.effects import Effects, Event

WRITE_EVERY_S = 0.2


class DecisionFile:
    """Appends turns to a file; `run` writes them, `close` writes the rest."""

    def __init__(self, path: str, header: Header) -> None:
        self._path = path
        self._header = header
        self._buffer = LogBuffer()
        self._file: BinaryIO | None = None
        self._under_way: asyncio.Future[None] | None = None

    def arrive(self, event: Event) -> int:
        """Record an incoming event; return the size of its text."""
        return self._buffer.arrive(event)

    def record(
        self, now: float, arrived: list[Arrived], cycles: int, effects: tuple[Effects, ...]
    ) -> None:
        """Record one turn, which processed the oldest of the recorded events."""
        self._buffer.end_turn(now, sum(size for _, size in arrived), cycles, effects)

    def state_release(self, release: Release | None) -> None:
        """Record the release that the engine follows, before the file is opened."""
        text = "" if release is None else str(release)
        self._header = msgspec.structs.replace(self._header, kubernetes=text)

    async def open(self) -> None:
        """Create the file; InputError if it cannot be written."""
        header = encode_header(self._header)
        try:
            self._file = await asyncio.to_thread(_create, self._path, header)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", where=self._path) from error

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await asyncio.sleep(WRITE_EVERY_S)
            await self._write()

    async def close(self) -> None:
        """Write the remaining turns and close the file."""
        await self._write()
        if self._file is not None:
            await asyncio.to_thread(self._file.close)

    async def _write(self) -> None:
        # Cancelling the waiting task does not end the thread that writes; the next writer waits for
        # the thread.
        if self._under_way is not None:
            await asyncio.wait([self._under_way])
        lines = self._buffer.take()
        if self._file is None or not lines:
            return
        writing = asyncio.to_thread(_write, self._file, lines)
        self._under_way = asyncio.ensure_future(writing)
        await asyncio.shield(self._under_way)


def _create(path: str, header: bytes) -> BinaryIO:
    file = Path(path).open("wb")  # noqa: SIM115 - `close` closes it
    _write(file, header)
    return file


def _write(file: BinaryIO, data: bytes | bytearray) -> None:
    file.write(data)
    file.flush()
