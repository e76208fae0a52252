"""Detectors that fail an async test for faults that would harm a daemon and are easy to overlook.

A pytest plugin, loaded by tests/conftest.py for every async test: tasks left running, exceptions
never retrieved, calls from the product's code that block the loop. Coroutines never awaited and
sockets never closed reach pytest as warnings when they are collected, and warnings are errors; this
plugin ensures that they are collected in the test that made them.

`@pytest.mark.allow_blocking("why")` switches the blocking check off for a test.
"""

import asyncio
import gc
import inspect
import io
import traceback
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from blockbuster import BlockBuster, BlockingError
from blockbuster import blockbuster as blockbuster_module

# Turns of the loop that a task gets, at the end of a test, to notice that it was cancelled.
LAST_TURNS = 10

Context = dict[str, Any]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "blocking_scan",
        "modules whose calls must not block a running loop",
        type="args",
        default=["scheduler", "operators"],
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "allow_blocking(reason): code under this async test may block the loop"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Put the detectors around every async test, outside of its own fixtures."""
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        names = ["no_loose_ends"]
        if not item.get_closest_marker("allow_blocking") and not item.get_closest_marker("perf"):
            names.append("no_blocking_calls")
        item.fixturenames[:0] = names


@pytest.fixture
async def no_loose_ends() -> AsyncIterator[None]:
    """Fail for tasks that still run at the end, and for exceptions never retrieved."""
    loop = asyncio.get_running_loop()
    before = asyncio.all_tasks()
    unhandled: list[Context] = []
    loop.set_exception_handler(lambda _, context: unhandled.append(context))
    yield
    for _ in range(LAST_TURNS):
        if not _left_since(before):
            break
        await asyncio.sleep(0)
    left = [_describe_task(task) for task in _left_since(before)]
    # Young objects only: that is where this test's coroutines, tasks and sockets are.
    gc.collect(1)
    faults = [_describe_context(context) for context in unhandled]
    loop.set_exception_handler(None)
    if left:
        pytest.fail("tasks left running:\n" + "\n".join(left), pytrace=False)
    if faults:
        pytest.fail("never handled:\n" + "\n".join(faults), pytrace=False)


@pytest.fixture(scope="session")
def block_buster(pytestconfig: pytest.Config) -> BlockBuster:
    """Make the wrappers once; they are switched on around each test."""
    return BlockBuster(scanned_modules=pytestconfig.getini("blocking_scan"))


@pytest.fixture
def no_blocking_calls(block_buster: BlockBuster, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail for calls that block the loop, also when the error was caught and answered."""
    seen: list[str] = []

    class SeenBlockingError(BlockingError):
        def __init__(self, func: str) -> None:
            super().__init__(func)
            # Drop the frames of this class and of the wrapper.
            seen.append("".join(traceback.format_stack(limit=8)[:-2]) + f"  {self}")

    monkeypatch.setattr(blockbuster_module, "BlockingError", SeenBlockingError)
    block_buster.activate()
    yield
    block_buster.deactivate()
    if seen:
        pytest.fail("the loop was blocked:\n" + "\n".join(seen), pytrace=False)


def _left_since(before: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    current = {asyncio.current_task()}
    return asyncio.all_tasks() - before - current


def _describe_task(task: asyncio.Task[Any]) -> str:
    stack = io.StringIO()
    task.print_stack(limit=4, file=stack)
    return f"  {task.get_name()}: {stack.getvalue()}"


def _describe_context(context: Context) -> str:
    error = context.get("exception")
    lines = traceback.format_exception(error) if error else []
    return f"  {context['message']}\n{''.join(lines)}"
