"""The vector tests themselves: no file is overlooked, and no entry of `LATER` is outdated."""

import importlib

from scheduler.intree import IN_TREE
from tests.vectors.frame import DATA, LATER, files, vectors


def test_every_file_has_a_runner_or_waits(root):
    """A file that no runner knows fails here instead of being left out silently."""
    for path in files(root):
        if path in LATER and all(vector.waits_for for vector in vectors(root, path)):
            continue
        folder, _, file = path.partition("/")
        runner = importlib.import_module(
            f"tests.vectors.test_{folder.replace('-', '_').replace('.', '_')}"
        )

        assert file in runner.RUNNERS, f"no runner for {path}"


def test_there_are_files(root):
    """A mistyped --vectors does not pass for success."""
    assert files(root)


def test_the_table_of_what_waits_shrinks():
    """A plugin that exists is not waited for, and the table names files that exist."""
    here = {cls.name for cls in IN_TREE}
    waited_for = {name for names in LATER.values() for name in names}

    assert not here & waited_for
    assert set(LATER) <= set(files(DATA))
