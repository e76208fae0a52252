"""Each detector of tests/detectors.py fires, and stays silent for a clean test."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CASES = '''
import asyncio
import socket

import pytest

import product


@pytest.mark.looptime
async def test_clean():
    """An hour passes at once, and a task that is awaited is no loose end."""
    started = asyncio.get_running_loop().time()
    await asyncio.create_task(asyncio.sleep(3600))
    assert 3600 <= asyncio.get_running_loop().time() - started < 3601


async def test_coroutine_never_awaited():
    asyncio.sleep(0)


async def test_task_left_running():
    test_task_left_running.task = asyncio.create_task(asyncio.Event().wait())


async def test_exception_never_retrieved():
    asyncio.create_task(product.fail())
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def test_socket_left_open():
    socket.socket()


async def test_server_left_open():
    await asyncio.start_server(product.fail, "127.0.0.1", 0)


async def test_blocking_call():
    product.block()


async def test_blocking_call_whose_error_was_caught():
    try:
        product.block()
    except Exception:
        pass


@pytest.mark.allow_blocking("shows the switch")
async def test_allowed_blocking_call():
    product.block()
'''

PRODUCT = """
import time


def block():
    time.sleep(0.001)


async def fail():
    raise ValueError("from a task")
"""

EXPECTED = {
    "test_coroutine_never_awaited": "coroutine 'sleep' was never awaited",
    "test_task_left_running": "tasks left running",
    "test_exception_never_retrieved": "Task exception was never retrieved",
    "test_socket_left_open": "unclosed <socket",
    "test_server_left_open": "unclosed <socket",
    "test_blocking_call": "Blocking call to time.sleep",
    "test_blocking_call_whose_error_was_caught": "the loop was blocked",
}


def test_each_detector_fires(pytester: pytest.Pytester):
    """Every wrong test fails for its own reason, under the settings of this repository."""
    pytester.makepyfile(product=PRODUCT, test_cases=CASES)
    result = pytester.runpytest_subprocess(
        f"--config-file={ROOT / 'pyproject.toml'}",
        "--rootdir=.",
        "--override-ini=blocking_scan=product",
        f"--override-ini=pythonpath=. {ROOT}",
        "-p",
        "tests.detectors",
        "-p",
        "no:cacheprovider",
        "-rA",
        "test_cases.py",
    )

    output = result.stdout.str()
    failed = set(re.findall(r"^(?:FAILED|ERROR) \S*::(\w+)", output, re.MULTILINE))
    passed = set(re.findall(r"^PASSED \S*::(\w+)", output, re.MULTILINE))
    assert set(EXPECTED) == failed
    assert {"test_clean", "test_allowed_blocking_call"} <= passed - failed
    for name, reason in EXPECTED.items():
        assert reason in report_of(name, output), name


def report_of(name: str, output: str) -> str:
    """Return the part of pytest's output about one test."""
    parts = re.split(r"^_{3,} (.*?) _{3,}$", output, flags=re.MULTILINE)
    titles, texts = parts[1::2], parts[2::2]
    return "".join(
        text for title, text in zip(titles, texts, strict=True) if name == title.split()[-1]
    )
