"""Check a plugin class against the signatures that the framework calls, with an error message each.

Each method that a class defines is compared with the protocol of its point (`framework.points`),
and each fact in `reads` with the vocabulary. Called by the registry once per class; raises nothing
itself.
"""

import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any

from scheduler.base.text import did_you_mean
from scheduler.framework import points
from scheduler.framework.plugin import Plugin
from scheduler.objects.kinds import BY_KIND
from scheduler.state import facts

FACTS = frozenset(
    value for name, value in vars(facts).items() if name.isupper() and isinstance(value, str)
)
# Methods with the state of `pre_filter` as last argument, if there is a `pre_filter`.
_WITH_STATE = frozenset(("filter", "pre_score", "reserve", "unreserve", "pre_bind", "row_capacity"))
# The same with the state of `pre_filter` or `pre_score`.
_WITH_SCORE_STATE = frozenset(("score", "score_cells"))


def problems(cls: type[Plugin[Any]]) -> Iterator[str]:
    """Yield each fault of a class with its remedy; the caller prepends the class's name."""
    for method in _shapes():
        if cls.serves(method):
            yield from _method_problems(cls, method)
    reads: Any = cls.reads  # any value, from an author without a type checker
    if not isinstance(reads, tuple | list):
        yield f"reads must be a tuple of facts, like ('node.labels',), not {reads!r}"
        return
    known = {*FACTS, *BY_KIND}
    for fact in reads:
        if fact not in known:
            meant = did_you_mean(str(fact), known)
            yield f'reads names the fact "{fact}", which does not exist{meant}'


def arguments(cls: type[Plugin[Any]], method: str) -> tuple[str, ...]:
    """Return the names of the arguments that the framework passes to a method of this class."""
    names = _shapes()[method]
    if method in _WITH_STATE and not cls.takes_state:
        return names[:-1]
    if method in _WITH_SCORE_STATE and not cls.takes_score_state:
        return names[:-1]
    return names


def _method_problems(cls: type[Plugin[Any]], method: str) -> Iterator[str]:
    found = inspect.getattr_static(cls, method)
    given = arguments(cls, method)
    function: Any = getattr(cls, method)
    if not callable(function):
        yield f"{method} must be a method ({', '.join(given)}), not {function!r}"
        return
    if inspect.iscoroutinefunction(function):
        yield (
            f"{method} is async; nothing in a plugin is: pre_bind and bind yield what they ask for"
        )
    is_bound = isinstance(found, staticmethod | classmethod)
    values: tuple[object, ...] = given if is_bound else ("self", *given)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # built in C: its arguments are unknown
    try:
        signature.bind(*values)
    except TypeError as error:
        shown = str(signature).partition(" ->")[0]
        yield (
            f"{method}{shown} does not take what it is called with, ({', '.join(given)}): {error}; "
            f"write def {method}(self, {', '.join(given)})"
        )


@cache
def _shapes() -> dict[str, tuple[str, ...]]:
    """Return the arguments of each method of the protocols."""
    found: dict[str, tuple[str, ...]] = {}
    for protocol in vars(points).values():
        if getattr(protocol, "_is_protocol", False) and protocol.__module__ == points.__name__:
            for name, member in vars(protocol).items():
                if inspect.isfunction(member) and not name.startswith("_"):
                    found[name] = tuple(inspect.signature(member).parameters)[1:]
    return found
