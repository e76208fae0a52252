"""The decision log on disk: whole and in order, however slow the disk is and whenever it ends."""

import asyncio
import threading
from pathlib import Path
from typing import BinaryIO

import pytest

from scheduler.daemon.records import decisionfile
from scheduler.daemon.records.decisionfile import DecisionFile
from scheduler.engine.decisionlog import Header, encode_header, encode_step


async def test_what_is_being_written_when_it_ends_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The thread that writes continues when its task is cancelled: the rest waits for it."""
    write, has_begun, may_end = decisionfile._write, threading.Event(), threading.Event()

    def slow(file: BinaryIO, data: bytes) -> None:
        if not has_begun.is_set():
            has_begun.set()
            may_end.wait(60)
        write(file, data)

    path, header = tmp_path / "log", Header("test")
    log = DecisionFile(str(path), header)
    await log.open()  # writes the header the same way
    monkeypatch.setattr(decisionfile, "_write", slow)
    monkeypatch.setattr(decisionfile, "WRITE_EVERY_S", 0.0)
    log.record(1.0, [], 1, ())
    writing = asyncio.create_task(log.run())
    await asyncio.to_thread(has_begun.wait, 60)
    log.record(2.0, [], 1, ())
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    closing = asyncio.create_task(log.close())
    for _ in range(5):
        await asyncio.to_thread(int)  # a write that did not wait would be in front of these
    may_end.set()
    await closing

    steps = [encode_step(now, [], 1, ()) for now in (1.0, 2.0)]
    written = await asyncio.to_thread(path.read_bytes)
    assert b"".join([encode_header(header), *steps]) == written
