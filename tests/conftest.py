"""Detectors, fixtures of the real cluster and hypothesis profiles for all tests.

Async tests run on real time unless marked `looptime`, which makes the loop's time jump to the next
timer. The mark is for tests without real sockets or processes, whose responses would arrive after
the jump.
"""

import asyncio
import gc
import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

pytest_plugins = [
    "pytester",
    "tests.apiserver.realcluster",
    "tests.detectors",
    "tests.page.browser",
]

# Workers of pytest-xdist set it, and tables are cut to it.
os.environ.pop("COLUMNS", None)

REAL_FIXTURES = {"real_cluster", "own_real_cluster"}
# A skip reason with these words: the test needs a program that `make tools` builds.
TOOLS = "make tools"
# Time limit of a test on real programs: ten times the time that a slow machine needs.
REAL_LIMIT_S = 600

# The default suite runs the same examples on every machine; `make long` draws new ones. .ci/run
# uses the profile `wide` for the newest Python, because the default suite must end in minutes.
for name, examples in (("default", 10), ("wide", 30)):
    settings.register_profile(
        name,
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.register_profile(
    "long",
    deadline=None,
    max_examples=2000,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure() -> None:
    """Unset the event loop: otherwise its first user creates one that no test closes.

    Loggers are not cached: a cached one keeps the stream of the test that used it first, which is
    closed when that test ends.
    """
    asyncio.set_event_loop(None)
    configure = structlog.configure

    def without_cache(**options: Any) -> None:
        configure(**{**options, "cache_logger_on_first_use": False})

    structlog.configure = without_cache  # type: ignore[assignment]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Undo the logging that a command set up in the test's process."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()
        root = logging.getLogger()
        for handler in root.handlers[:]:
            if type(handler) is logging.StreamHandler:
                root.removeHandler(handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests on real programs as `real`, and raise their time limit.

    A test that requires a program of `make tools` runs in `make test-real`: `make test` runs
    before the programs exist, and would skip it in every run.
    """
    for item in items:
        if needs_real_programs(item):
            item.add_marker(pytest.mark.real)
        if item.get_closest_marker("real") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(REAL_LIMIT_S))


def needs_real_programs(item: pytest.Item) -> bool:
    """Return whether a test uses a fixture of the real cluster, or is skipped without tools."""
    if REAL_FIXTURES.intersection(getattr(item, "fixturenames", ())):
        return True
    return any(TOOLS in mark.kwargs.get("reason", "") for mark in item.iter_markers("skipif"))


def pytest_collection_finish() -> None:
    """Exempt the collected tests from garbage collection: they live as long as the run."""
    gc.collect()
    gc.freeze()
