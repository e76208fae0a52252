"""Every mistake of a configuration file at once, also those that an earlier one hides.

`load` stops after the step that found something, as kube-scheduler does: what a later step says of
fields that could not be read would mislead. A person who mends a file wants the rest of it looked at
all the same, so `every_problem` reads again without the fields that are wrong. For `config check`.
"""

from collections.abc import Iterator

from scheduler.config.document import DocumentNode, parse
from scheduler.config.load import Loaded, load, load_roots
from scheduler.config.problems import InvalidConfigError, Problem, Problems
from scheduler.framework.registry import Registry

# Reading, arguments, validation, start: no mistake hides behind more steps than there are.
_STEPS = 4


def load_or_report_all(text: str, *, file: str, registry: Registry) -> Loaded:
    """Read a configuration file as `load` does; InvalidConfigError has all its mistakes."""
    try:
        return load(text, file=file, registry=registry)
    except InvalidConfigError as error:
        found = every_problem(text, file=file, registry=registry)
        raise InvalidConfigError(found or error.problems) from error


def every_problem(text: str, *, file: str, registry: Registry) -> tuple[Problem, ...]:
    """Return all mistakes of a file, those that `load` names first; none when it is valid."""
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
            # What stands at a place that was wrong already follows from that; so may what has no
            # place and speaks of the whole.
            said = {one.text for one in found}
            fresh = [
                one
                for one in error.problems
                if not found or (one.line and one.text not in said and _place(one) not in places)
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
    """Take the fields and list items that stand at the positions `wrong` out of a tree."""
    if isinstance(node.value, dict):
        fields = [key for key in node.value if node.keys[key] in wrong]
        for key in fields:
            del node.value[key]
        if fields and node.at not in node.keys.values():
            # In braces an object does not stand where its first field does; what it lacks now is no mistake.
            wrong.add(node.at)
        for key in [key for key, child in node.value.items() if _is_wrong(child, wrong)]:
            del node.value[key]
    elif isinstance(node.value, list):
        node.value = [child for child in node.value if not _is_wrong(child, wrong)]
    for child in _children(node):
        _leave_out(child, wrong)


def _is_wrong(node: DocumentNode, wrong: set[tuple[int, int]]) -> bool:
    """Whether a problem stands at a value itself; an object stands where its first field does."""
    return node.at in wrong and not isinstance(node.value, dict)


def _children(node: DocumentNode) -> Iterator[DocumentNode]:
    if isinstance(node.value, dict):
        yield from node.value.values()
    elif isinstance(node.value, list):
        yield from node.value
