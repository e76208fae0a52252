"""Verbs that run until stopped end at Ctrl-C, SIGTERM and SIGHUP."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest

from scheduler.cli.signals import on_stop

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture
def handlers() -> Iterator[None]:
    """Start from the defaults: a shell's background jobs ignore SIGINT, and nohup SIGHUP."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in STOPPING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", STOPPING)
async def test_each_of_them_stops(handlers: None, number: signal.Signals):
    """Without a handler SIGHUP would end the process with writes in flight."""
    stopped = asyncio.Event()
    on_stop(stopped.set)
    os.kill(os.getpid(), number)
    await asyncio.wait_for(stopped.wait(), 5)
    for one in STOPPING:
        asyncio.get_running_loop().remove_signal_handler(one)


async def test_a_background_job_ends_at_an_interrupt(handlers: None):
    """A shell starts background jobs with SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stopped = asyncio.Event()
    on_stop(stopped.set)
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.wait_for(stopped.wait(), 5)
    for one in STOPPING:
        asyncio.get_running_loop().remove_signal_handler(one)


async def test_a_hangup_stays_ignored_under_nohup(handlers: None):
    """The command nohup starts a process that ignores SIGHUP."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    on_stop(lambda: None)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    for one in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().remove_signal_handler(one)
