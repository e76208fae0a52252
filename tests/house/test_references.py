"""Names in backticks in docstrings and comments exist: this finds renamed names in prose."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.house.source import PRODUCT, ROOT, name_of, python_files, tree_of

# Foreign names (grammars, libraries, Kubernetes' own types), and examples of texts.
FOREIGN = {
    "CEL.g4", "Greek", "MicroTime", "PodRequests", "a__b", "getpeercert", "nodeSelektor",
    "strconv.Quote",
    "successPolicy", "v1.2",
}  # fmt: skip
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def prose(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the docstrings and comments of a file, with the line they begin in."""
    for node in ast.walk(tree_of(file)):
        if isinstance(node, DOCUMENTED):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(file.read_text()).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def reported(file: Path) -> Iterator[str]:
    """Yield the words in a file's code: its names, and its texts without docstrings."""
    tree = tree_of(file)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, DOCUMENTED) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) not in docstrings:
                yield from re.findall(r"\w+", node.value)
            continue
        for field in ("id", "attr", "name", "arg", "module", "asname"):
            text = getattr(node, field, None)
            if isinstance(text, str):
                yield from text.split(".")


def camel(word: str) -> str:
    """Return msgspec's JSON name of a field."""
    first, *more = word.split("_")
    return first + "".join(part.capitalize() for part in more)


def test_names_in_backticks_exist():
    """Docstrings and comments name nothing that is unknown to the code or the product's texts."""
    files = python_files(*PRODUCT)
    known = {word for file in files for word in reported(file)}
    known |= {part for file in files for part in file.relative_to(ROOT).with_suffix("").parts}
    known |= {
        word for file in ROOT.glob("crds/*.yaml") for word in re.findall(r"\w+", file.read_text())
    }
    known |= {camel(word) for word in known}  # as users write the fields of configurations
    missing = []
    for file in files:
        for line, text in prose(file):
            for name in re.findall(r"`+([A-Za-z_][\w.]*)(?:\(.*?\))?`+", text):
                parts = {part for part in name.removesuffix(".py").split(".") if part}
                if name not in FOREIGN and parts - known:
                    missing.append(f"{name_of(file)}:{line}: {name}")

    assert [] == missing
