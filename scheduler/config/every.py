"""Report every mistake of a configuration file at once, also those hidden by an earlier one.

`load` stops after the step that found a problem, as kube-scheduler does: a later step's report on
unreadable fields would mislead. For a complete list `every_problem` reads the file again without
the invalid fields. For `config check`.
"""

from collections.abc import Iterator

from scheduler.config.document import DocumentNode, parse
from scheduler.config.load import Loaded, load, load_roots
from scheduler.config.problems import InvalidConfigError, Problem, Problems
from scheduler.framework.registry import Registry

# Reading, arguments, validation, start: a mistake is hidden by at most this number of steps.
_STEPS = 4


def load_or_report_all(text: str, *, file: str, registry: Registry) -> Loaded:
    """Read a configuration file like `load`; InvalidConfigError has all its mistakes."""
    try:
        return load(text, file=file, registry=registry)
    except InvalidConfigError as error:
        found = every_problem(text, file=file, registry=registry)
        raise InvalidConfigError(found or error.problems) from error


def every_problem(text: str, *, file: str, registry: Registry) -> tuple[Problem, ...]:
    """Return all mistakes of a file, those of `load` first; none when it is valid."""
    problems = Problems(file)
    try:
        roots = parse(text, problems)
    except InvalidConfigError as error:
        return error.problems
    found: list[Problem] = []
    places: set[tuple[int, int]] = set()
    for _ in range(_STEPS):
        try:
            load_roots(roots, problems, registry)
        except InvalidConfigError as error:
            # A problem at a position that was already reported follows from that one; so may a
            # problem of the whole file, which has no position.
            texts = {one.text for one in found}
            fresh = [
                one
                for one in error.problems
                if not found or (one.line and one.text not in texts and _place(one) not in places)
            ]
            found += fresh
            places |= {_place(one) for one in fresh}
            if not fresh:
                break
        else:
            break
        for root in roots:
            _leave_out(root, places)
        problems = Problems(file)
    return tuple(found)


def _place(problem: Problem) -> tuple[int, int]:
    return problem.line, problem.column


def _leave_out(node: DocumentNode, wrong: set[tuple[int, int]]) -> None:
    """Remove the fields and list items at the positions `wrong` from a tree."""
    if isinstance(node.value, dict):
        fields = [key for key in node.value if node.keys[key] in wrong]
        for key in fields:
            del node.value[key]
        if fields and node.at not in node.keys.values():
            # With braces an object's position differs from its first field's; fields that it lacks
            # now are no mistake.
            wrong.add(node.at)
        for key in [key for key, child in node.value.items() if _is_wrong(child, wrong)]:
            del node.value[key]
    elif isinstance(node.value, list):
        node.value = [child for child in node.value if not _is_wrong(child, wrong)]
    for child in _children(node):
        _leave_out(child, wrong)


def _is_wrong(node: DocumentNode, wrong: set[tuple[int, int]]) -> bool:
    """Return whether a value itself has a problem.

    An object's position is that of its first field.
    """
    return node.at in wrong and not isinstance(node.value, dict)


def _children(node: DocumentNode) -> Iterator[DocumentNode]:
    if isinstance(node.value, dict):
        yield from node.value.values()
    elif isinstance(node.value, list):
        yield from node.value
