"""Detectors, fixtures of the real cluster and hypothesis profiles for all tests.

Async tests run on real time unless marked `looptime`, which makes the loop's time jump to the next
timer. The mark is for tests without real sockets or processes, whose responses would arrive after
the jump.
"""

import asyncio
import gc
import os

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester", "tests.apiserver.realcluster", "tests.detectors"]

# Workers of pytest-xdist set it, and tables are cut to it.
os.environ.pop("COLUMNS", None)

REAL_FIXTURES = {"real_cluster", "own_real_cluster"}
# A skip reason with these words: the test needs a program that `make tools` builds.
TOOLS = "make tools"
# Time limit of a test on real programs: ten times what a slow machine needs.
REAL_LIMIT_S = 600

# The default suite runs the same examples on every machine; `make long` draws new ones.
settings.register_profile(
    "default",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=30,
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
    """Unset the event loop: otherwise its first user creates one that no test closes."""
    asyncio.set_event_loop(None)


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
