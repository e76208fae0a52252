"""The repository's own source for the house tests: files, their packages, their syntax trees."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PRODUCT = ("scheduler", "operators")

# Packages without I/O: their results follow from their arguments alone.
CORE = tuple(
    f"scheduler/{package}"
    for package in (
        "base",
        "cel",
        "controlplane",
        "objects",
        "state",
        "framework",
        "groups",
        "plugins",
        "config",
        "engine",
        "snapshot",
        "simulate",
        "explain",
        "convert",
    )
)


def python_files(*folders: str) -> list[Path]:
    """Return the Python files under these folders of the repository, sorted."""
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


def name_of(file: Path) -> str:
    """Return the path inside the repository."""
    return file.relative_to(ROOT).as_posix()


@cache
def tree_of(file: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(file.read_text(), filename=str(file))


def called_name(call: ast.Call, imported: dict[str, str]) -> str:
    """Return the full dotted name of the called function; empty for a method of a local value."""
    parts: list[str] = []
    node: ast.expr = call.func
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    if parts and node.id not in imported:
        return ""
    parts.append(imported.get(node.id, node.id))
    return ".".join(reversed(parts))


def imported_names(tree: ast.Module) -> dict[str, str]:
    """Return local name -> full dotted name for every import of a module, at any level."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                local = alias.asname or alias.name.partition(".")[0]
                names[local] = alias.name if alias.asname else local
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def calls_of(tree: ast.Module) -> list[tuple[int, str, ast.Call]]:
    """Return (line, full name, call) of every call in a module."""
    imported = imported_names(tree)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [(call.lineno, called_name(call, imported), call) for call in found]
