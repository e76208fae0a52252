"""Turns vector files into tests: one case, one test, id `folder/file:case-id`.

`pytest tests/vectors --vectors DIR` runs the files of another folder instead of the project's own.
"""

from pathlib import Path

import pytest

from tests.vectors.frame import DATA, files, vectors


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names another folder of vector files."""
    parser.addoption("--vectors", metavar="DIR", help="run the vector files in DIR")


def vectors_root(config: pytest.Config) -> Path:
    """Return the folder of vector files in use."""
    given = config.getoption("--vectors", default=None)
    return Path(given).resolve() if given else DATA


@pytest.fixture
def root(request: pytest.FixtureRequest) -> Path:
    """The folder of vector files in use."""
    return vectors_root(request.config)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give the runner of a folder (`FOLDER`) all cases of that folder."""
    if "vector" not in metafunc.fixturenames:
        return
    folder = metafunc.module.FOLDER
    root = vectors_root(metafunc.config)
    cases = []
    for path in files(root):
        if not path.startswith(f"{folder}/"):
            continue
        waiting: set[str] = set()
        for vector in vectors(root, path):
            waiting.update(vector.waits_for)
            if not vector.waits_for:
                cases.append(pytest.param(vector, id=vector.id))
        if waiting:
            reason = pytest.mark.skip(f"waits for {', '.join(sorted(waiting))}")
            cases.append(pytest.param(None, id=f"{path}:later", marks=reason))
    metafunc.parametrize("vector", cases)
