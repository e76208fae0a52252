"""Counts of the code's structure for `python -m tests.house.measure`: sizes, imports, deep reads
and words.

All counts come from syntax trees and text; no product code runs. Each count has a wanted value in
the plan for the code base, which the table prints beside it.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import networkx as nx

from tests.house.source import PRODUCT, ROOT, name_of, python_files, tree_of

GROUPS = ("scheduler/groups", "scheduler/framework/groups.py", "scheduler/framework/together.py",
          "scheduler/plugins/groupsort.py", "scheduler/engine/queue/groupactive.py",
          "scheduler/engine/queue/membership.py", "scheduler/engine/groups.py")  # fmt: skip
# Nouns and verbs that the style guide replaces by the field's terms.
PRIVATE = (
    "nobody",
    "whoever",
    "somebody",
    "held",
    "room",
    "told",
    "ways",
    "standing",
    "alike",
    "unlike",
    "world",
    "worlds",
)
WIDTH = 100
FLAT = 20
SMALL = 90
HARNESS = re.compile(r"/test_[^/]*\.py$")


def lines(file: Path) -> int:
    """Return the lines of a text file."""
    return len(file.read_text().splitlines())


def group_size() -> tuple[int, int]:
    """Return lines and files of all code that schedules groups."""
    files = [file for place in GROUPS for file in _files_of(ROOT / place)]
    return sum(map(lines, files)), len(files)


def _files_of(place: Path) -> list[Path]:
    return [place] if place.is_file() else sorted(place.rglob("*.py"))


def product_lines() -> int:
    """Return the lines of `scheduler/` and `operators/`."""
    return sum(map(lines, python_files(*PRODUCT)))


def imports() -> "nx.DiGraph[str]":
    """Return the project's imports by module, those in functions included."""
    modules = {_module(file): file for file in python_files(*PRODUCT)}
    graph: nx.DiGraph[str] = nx.DiGraph()
    for module, file in modules.items():
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.Import):
                wanted = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                wanted = [one if one in modules else node.module for one in inner]
            else:
                continue
            graph.add_edges_from((module, one) for one in wanted if one in modules)
    return graph


def _module(file: Path) -> str:
    return name_of(file).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def circles(graph: "nx.DiGraph[str]") -> list[int]:
    """Return the sizes of the groups of files that import one another, the largest first."""
    parts = (len(part) for part in nx.strongly_connected_components(graph))
    return sorted((size for size in parts if size > 1), reverse=True)


def small_files(graph: "nx.DiGraph[str]") -> int:
    """Return how many files under 90 lines have a single importer, in their own folder."""
    count = 0
    for file in python_files(*PRODUCT):
        module = _module(file)
        importers = list(graph.predecessors(module)) if module in graph else []
        if file.name != "__init__.py" and lines(file) < SMALL and len(importers) == 1:
            count += importers[0].rpartition(".")[0] == module.rpartition(".")[0]
    return count


def flat_folders() -> list[str]:
    """Return the folders with more than 20 files, and how many they hold."""
    folders = Counter(name_of(file.parent) for file in python_files(*PRODUCT))
    return [f"{name} {count}" for name, count in folders.most_common() if count > FLAT]


def deep_reaches(package: str) -> int:
    """Return how often a package reads an attribute of one of the engine's parts:
    `engine.part.thing`.

    The read model `engine.view` does not count.
    """
    count = 0
    for file in python_files(f"scheduler/{package}"):
        for node in ast.walk(tree_of(file)):
            match node:
                case ast.Attribute(
                    value=ast.Attribute(
                        value=ast.Name(id="engine" | "_engine")
                        | ast.Attribute(attr="engine" | "_engine"),
                        attr=part,
                    )
                ) if part != "view":
                    count += 1
    return count


def private_words() -> Iterator[tuple[str, int]]:
    """Yield each word of the private language and how often product code and docs use it."""
    files = [
        *python_files(*PRODUCT),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "charts").rglob("*.yaml"),
    ]
    text = "\n".join(file.read_text() for file in files).lower()
    for word in PRIVATE:
        yield word, len(re.findall(rf"\b{word}\b", text))


def wide_lines() -> int:
    """Return the lines of Python over 100 columns, tests included."""
    files = python_files(*PRODUCT, "tests")
    return sum(len(line) > WIDTH for file in files for line in file.read_text().splitlines())


def tests_size() -> tuple[int, int]:
    """Return the lines of `tests/`, and the number of its files without tests."""
    files = python_files("tests")
    return sum(map(lines, files)), sum(
        lines(file) for file in files if not HARNESS.search(name_of(file))
    )


def rows() -> Iterator[tuple[str, str]]:
    """Yield each measure, its count, and the plan's value."""
    count, files = group_size()
    yield "lines that schedule groups (wanted 14,000 in 75 files)", f"{count:,} in {files} files"
    yield "product lines (wanted 103,000 before new capabilities)", f"{product_lines():,}"
    graph = imports()
    sizes = circles(graph)
    yield "import circles, functions included (wanted 0)", f"{len(sizes)}: {sizes}"
    yield "files under 90 lines with one importer beside them (wanted 15)", str(small_files(graph))
    yield "folders with more than 20 files (wanted 0)", ", ".join(flat_folders()) or "0"
    reaches = ", ".join(
        f"{name} {deep_reaches(name)}" for name in ("simulate", "explain", "daemon")
    )
    yield "deep reaches into the engine's parts (wanted 0)", reaches
    yield "private words", ", ".join(f"{word} {count}" for word, count in private_words())
    yield "lines over 100 columns (wanted 0)", str(wide_lines())
    total, harness = tests_size()
    yield (
        "tests: lines, share of the harness (wanted 98,000, 28 %)",
        f"{total:,}, {harness / total:.0%}",
    )
