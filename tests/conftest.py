"""What every test gets: detectors, fixtures of the real cluster, hypothesis profiles.

Async tests run on real time unless marked `looptime`; then the loop's time jumps to the next timer
and nobody waits. The mark is for tests without real sockets or processes, whose answers would
come after a jump and so too late.
"""

import asyncio
import gc
import os

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["pytester", "tests.apiserver.realcluster", "tests.detectors"]

REAL_FIXTURES = {"real_cluster", "own_real_cluster"}
# Of a test on real programs, and of what it waits for: far more than a slow machine needs.
REAL_LIMIT_S = 600

# The default suite must say the same on every machine; `make long` searches on its own.
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
    """Say that there is no loop yet: else the first who asks for it makes one nobody closes."""
    asyncio.set_event_loop(None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as real whatever asks for the real cluster, and give all that is real its time."""
    for item in items:
        if REAL_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.real)
        if item.get_closest_marker("real") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(REAL_LIMIT_S))


def pytest_collection_finish() -> None:
    """Set aside what lives as long as the run: eight thousand tests, which each collection would go through."""
    gc.collect()
    gc.freeze()
