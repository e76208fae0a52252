"""Every mutation of the table makes its test fail: a test that passes would prove nothing.

Each mutation is applied in a copy of the project, and its test runs there and must fail. `make
mutations` runs all of them; the default suite only checks that the table matches the code.
"""

import ast
import os
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.house.source import PRODUCT, ROOT, name_of, python_files, tree_of
from tests.mutations.table import MUTATIONS, Mutation
from tests.mutations.trying import FAILED, TOO_LONG_S, copied, tried

MARKS = "(real or not real) and not long and not perf"


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """Return a copy of the project to break."""
    return copied(tmp_path_factory.mktemp("project"))


@cache
def sources() -> dict[Path, str]:
    """Return the text of every product file."""
    return {file: file.read_text(encoding="utf-8") for file in python_files(*PRODUCT)}


def definitions(place: str) -> list[tuple[str, int, int]]:
    """Return (file, first line, last line) of every function or class of a qualified name.

    Parses only files that define the last part of the name: parsing all takes half a minute of CPU.
    """
    defined = re.compile(rf"^\s*(?:async def|def|class) {place.rpartition('.')[2]}\b", re.MULTILINE)
    return [
        (name_of(file), node.lineno, node.end_lineno or node.lineno)
        for file, text in sources().items()
        if defined.search(text)
        for name, node in named(tree_of(file), "")
        if name == place
    ]


def named(
    tree: ast.AST, prefix: str
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    """Yield every function and class with its qualified name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield prefix + node.name, node
            yield from named(node, f"{prefix}{node.name}.")


class Target(NamedTuple):
    """The file that a mutation changes, and its text before, in and after the mutated part."""

    file: str
    before: str
    part: str
    after: str

    def mutated(self, mutation: Mutation) -> str:
        """Return the text of the file with the mutation applied."""
        text = self.before + self.part.replace(mutation.old, mutation.new) + self.after
        if self.file.endswith(".py"):
            compile(text, self.file, "exec")
        return text


def target(mutation: Mutation) -> Target:
    """Return the target of a mutation: a file, or the only function or class of that name."""
    if "/" in mutation.place:
        return Target(mutation.place, "", (ROOT / mutation.place).read_text(encoding="utf-8"), "")
    places = definitions(mutation.place)
    assert 1 == len(places), f"{mutation.place} names {len(places)} definitions: {places}"
    file, first, last = places[0]
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines(keepends=True)
    parts = (lines[: first - 1], lines[first - 1 : last], lines[last:])
    return Target(file, *("".join(part) for part in parts))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_the_table_matches_the_code(mutation: Mutation):
    """The text to change occurs once in its place, and the changed file can be compiled."""
    found = target(mutation)

    assert 1 == found.part.count(mutation.old), (
        f"{mutation.place} was changed: update tests/mutations/table.py"
    )
    assert found.before + found.part + found.after != found.mutated(mutation)
    assert (ROOT / mutation.test[0].partition("::")[0]).exists()


def test_every_invariant_is_broken_by_two_changes_at_least():
    """Every invariant has two mutations: a single one might be detected by chance."""
    assert min(Counter(one.invariant for one in MUTATIONS).values()) >= 2


@pytest.mark.long
@pytest.mark.timeout(2 * TOO_LONG_S)
@pytest.mark.parametrize(
    "test", sorted({one.test for one in MUTATIONS if not one.real}), ids=" ".join
)
def test_a_invariant_holds_where_nothing_is_broken(test: tuple[str, ...], copy: Path):
    """The tests pass in the unchanged copy: otherwise a failure would prove nothing."""
    code, text = tried(copy, ["-m", MARKS, *test])
    assert 0 == code, text


@pytest.mark.long
@pytest.mark.timeout(2 * TOO_LONG_S)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_a_broken_rule_is_caught(mutation: Mutation, copy: Path):
    """The invariant's tests run, and fail."""
    if mutation.real and "KUBEBUILDER_ASSETS" not in os.environ:
        pytest.skip("KUBEBUILDER_ASSETS names no real API server")
    found = target(mutation)
    file = copy / found.file
    whole = file.read_text(encoding="utf-8")
    file.write_text(found.mutated(mutation), encoding="utf-8")
    try:
        code, text = tried(copy, ["-m", MARKS, *mutation.test])
    finally:
        file.write_text(whole, encoding="utf-8")
    assert FAILED == code, f"{mutation.name} is not caught by {' '.join(mutation.test)}:\n{text}"
