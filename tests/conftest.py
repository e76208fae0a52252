"""What every test gets: the fixtures of the real cluster, and marks that follow from fixtures."""

import pytest

pytest_plugins = ["tests.apiserver.realcluster"]

REAL_FIXTURES = {"real_cluster", "own_real_cluster"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as real whatever asks for the real cluster, so that nobody has to remember it."""
    for item in items:
        if REAL_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.real)
