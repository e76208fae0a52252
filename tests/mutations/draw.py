"""Draw mutants of the product by a seed, with the operators of cosmic-ray.

Runs in its own environment (`requirements-mutants.lock`) and imports nothing of Trellis. Its
output, a JSON list of mutants, is the input of `tests.mutations.sample`. A place in the code is
drawn first, then one of the operators that apply there: a comparison, which has more operators than
a number, is not drawn more often.
"""

import ast
import json
import random
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

# Replacements that keep the types valid: others end in a TypeError that any test notices.
SWAPS: Final = {
    "ReplaceComparisonOperator": [
        ("Eq", "NotEq"), ("NotEq", "Eq"), ("Is", "IsNot"), ("IsNot", "Is"),
        ("Lt", "LtE"), ("Lt", "GtE"), ("LtE", "Lt"), ("LtE", "Gt"),
        ("Gt", "GtE"), ("Gt", "LtE"), ("GtE", "Gt"), ("GtE", "Lt"),
    ],
    "ReplaceBinaryOperator": [
        ("Add", "Sub"), ("Sub", "Add"), ("Mul", "FloorDiv"), ("FloorDiv", "Mul"), ("Div", "Mul"),
        ("Mod", "FloorDiv"), ("BitAnd", "BitOr"), ("BitOr", "BitAnd"), ("LShift", "RShift"),
    ],
    "ReplaceUnaryOperator": [("Delete", "Not"), ("Delete", "USub"), ("Delete", "Invert")],
}  # fmt: skip
OPERATORS: Final = [
    *(f"core/{kind}_{old}_{new}" for kind, swaps in SWAPS.items() for old, new in swaps),
    *(
        f"core/{name}"
        for name in (
            "AddNot",
            "NumberReplacer",
            "ReplaceAndWithOr",
            "ReplaceOrWithAnd",
            "ReplaceBreakWithContinue",
            "ReplaceContinueWithBreak",
            "ReplaceFalseWithTrue",
            "ReplaceTrueWithFalse",
            "ZeroIterationForLoop",
        )
    ),
]

Position = tuple[int, int]
Place = tuple[Position, Position]


def function_bodies(tree: ast.AST) -> list[Place]:
    """Return the ranges of the statements in functions; decorators and parameters are outside."""
    return [
        (position(one.body[0]), end(one.body[-1]))
        for one in ast.walk(tree)
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def annotations(tree: ast.AST) -> list[Place]:
    """Return the ranges of annotations: `int | None` is no arithmetic."""
    fields = ("annotation", "returns")
    found = (getattr(node, field, None) for node in ast.walk(tree) for field in fields)
    return [(position(one), end(one)) for one in found if one is not None]


def assertions(tree: ast.AST) -> list[Place]:
    """Return the ranges of `strict=True` in `zip`: it asserts what no valid input violates."""
    words = (one for one in ast.walk(tree) if isinstance(one, ast.keyword) and one.arg == "strict")
    return [(position(one.value), end(one.value)) for one in words]


def position(node: Any) -> Position:
    """Return the line (from 1) and the column (from 0) where a node begins."""
    return node.lineno, node.col_offset


def end(node: Any) -> Position:
    """Return the line (from 1) and the column (from 0) behind the last character of a node."""
    return node.end_lineno, node.end_col_offset


def places(source: str) -> dict[Place, list[tuple[str, int]]]:
    """Return for every place the operators that apply, each with its occurrence in the file."""
    tree = ast.parse(source)
    bodies, kept = function_bodies(tree), annotations(tree) + assertions(tree)
    nodes = list(ast_nodes(get_ast(source)))
    found: dict[Place, list[tuple[str, int]]] = defaultdict(list)
    for name in OPERATORS:
        operator = get_operator(name)()
        at = (one for node in nodes for one in operator.mutation_positions(node))
        for occurrence, (begin, stop) in enumerate(at):
            if within(begin, bodies) and not within(begin, kept):
                found[begin, stop].append((name, occurrence))
    return found


def within(at: Position, ranges: list[Place]) -> bool:
    """Return whether a position is in one of the ranges."""
    return any(first <= at < last for first, last in ranges)


def changed(before: str, after: str) -> tuple[int, str, str]:
    """Return the first changed offset, the text there before, and after."""
    least = min(len(before), len(after))
    start = next((i for i in range(least) if before[i] != after[i]), least)
    tail = next((i for i in range(least - start) if before[-1 - i] != after[-1 - i]), least - start)
    return start, before[start : len(before) - tail], after[start : len(after) - tail]


def drawn(files: list[Path], count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield mutants: file, line (from 1), operator, offset in the file, old and new text."""
    sources = {file: file.read_text(encoding="utf-8") for file in files}
    every = [
        (file, place, operators)
        for file, source in sources.items()
        for place, operators in sorted(places(source).items())
    ]
    print(f"{len(every)} places in {len(files)} files", file=sys.stderr)
    source_of_chance = random.Random(seed)
    for file, ((line, _), _), operators in source_of_chance.sample(every, min(count, len(every))):
        name, occurrence = source_of_chance.choice(operators)
        after = mutate_code(sources[file], get_operator(name)(), occurrence)
        start, old, new = changed(sources[file], after)
        yield {
            "file": str(file),
            "line": line,
            "operator": name.removeprefix("core/"),
            "start": start,
            "old": old,
            "new": new,
        }


if __name__ == "__main__":
    folders, number, first = sys.argv[1:-2], int(sys.argv[-2]), int(sys.argv[-1])
    modules = sorted(file for folder in folders for file in Path(folder).rglob("*.py"))
    json.dump(list(drawn(modules, number, first)), sys.stdout, indent=1)
