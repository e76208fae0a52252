"""No file needs, through others, itself: what a file says can be understood from the files below
it.

Functions import what is large when they need it, such as the verbs of the command line: those
imports do not count.
"""

import ast
from collections.abc import Iterator

import networkx as nx

from tests.house.source import PRODUCT, name_of, python_files, tree_of

# Where files name one another for the sake of types. The list may become shorter only.
FOR_TYPES = {
    "scheduler.framework",  # a plugin, its points, and what is worked out from their signatures
}


def at_the_top(body: list[ast.stmt], *, types: bool) -> Iterator[ast.stmt]:
    """Yield the statements outside of functions and classes.

    With `types`, also those for types alone.
    """
    for node in body:
        yield node
        if isinstance(node, ast.If) and types:
            yield from at_the_top(node.body, types=types)


def cycles(*, types: bool) -> list[list[str]]:
    """Return the groups of modules of ours that import one another."""
    modules = {
        name_of(file).removesuffix(".py").removesuffix("/__init__").replace("/", "."): file
        for file in python_files(*PRODUCT)
    }
    graph = nx.DiGraph()
    for module, file in modules.items():
        for node in at_the_top(tree_of(file).body, types=types):
            if isinstance(node, ast.Import):
                wanted = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                wanted = [one if one in modules else node.module for one in inner]
            else:
                continue
            graph.add_edges_from((module, one) for one in wanted if one in modules)
    return [sorted(part) for part in nx.strongly_connected_components(graph) if len(part) > 1]


def test_no_cycle_of_imports_between_files():
    """Whatever file is imported first, it finds what it needs."""
    assert [] == cycles(types=False)


def test_cycles_for_types_are_few_and_named():
    """A type checker may follow an import back; each place where it does is told above."""
    found = cycles(types=True)
    places = {place for place in FOR_TYPES for part in found if part[0].startswith(f"{place}.")}

    assert places == FOR_TYPES
    assert len(found) == len(FOR_TYPES), found
