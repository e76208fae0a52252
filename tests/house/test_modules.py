"""How modules are made: docstrings, exports, names."""

import ast
import importlib
from pathlib import Path

import pytest

from tests.house.source import CORE, PRODUCT, name_of, python_files, tree_of

PACKAGES = [file for file in python_files(*PRODUCT) if file.name == "__init__.py"]
VAGUE = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}


def test_every_module_says_what_it_owns():
    """A module opens with a docstring, in the product and in the tests."""
    files = python_files(*PRODUCT, "tests")

    assert [] == [name_of(file) for file in files if not ast.get_docstring(tree_of(file))]


def test_names_say_what_is_inside():
    """Names of modules state their content: a name such as `utils` is rejected."""
    files = python_files(*PRODUCT)

    assert [] == [name_of(file) for file in files if VAGUE & set(file.with_suffix("").parts[-2:])]


@pytest.mark.parametrize("file", PACKAGES, ids=name_of)
def test_packages_only_re_export(file: Path):
    """`__init__.py` has a docstring, imports and `__all__`, which lists exactly the imports."""
    exported: list[str] = []
    listed: list[str] = []
    for statement in tree_of(file).body[1:]:
        match statement:
            case ast.ImportFrom(names=names):
                exported += [alias.asname or alias.name for alias in names]
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                listed += ast.literal_eval(value)
            case _:
                pytest.fail(f"{name_of(file)}:{statement.lineno}: more than re-exports")

    assert sorted(name for name in exported if not name.startswith("_")) == sorted(listed)
    package = importlib.import_module(".".join(Path(name_of(file)).parent.parts))
    assert [] == [name for name in listed if not hasattr(package, name)]


def test_the_core_is_there():
    """The packages without I/O exist, so that the rules about them apply."""
    assert [] == [package for package in CORE if not python_files(package)]
