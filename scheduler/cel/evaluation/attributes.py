"""Chains of fields and indices, `device.attributes["d"].id`: each link looks one thing up.

A chain starts at a variable, at another value, or at the choice of a conditional, whose branches
then both get the links that follow it. An optional link (`.?id`, `[?"id"]`) makes all that follow
optional. Every link that is looked up costs 1, found or not; an optional one only if it is found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec

from scheduler.cel.evaluation import values
from scheduler.cel.evaluation.run import EvaluationState, Step

KeyOf = Callable[[EvaluationState], Any]


class AttributeLink(msgspec.Struct, eq=False):
    """A field or an index: a constant `key`, or `find_key`, which evaluates to it."""

    key: Any
    find_key: KeyOf | None = None
    optional: bool = False
    test: bool = False


class Chain:
    """Where a chain starts, and its links; `step` compiles it once all links are known."""

    def __init__(self, start: Step) -> None:
        self._start = start
        self.links: list[AttributeLink] = []

    def add(self, link: AttributeLink) -> None:
        """Append a link."""
        self.links.append(link)

    def resolver(self) -> Step:
        """Return the function that resolves the value; its cost excludes that of the chain."""
        links = tuple(self.links)
        start = self._start
        if not links:
            return start
        if all(type(link.key) is str and not link.optional and not link.test for link in links):
            return _by_names(start, tuple(link.key for link in links))

        def resolve(run: EvaluationState) -> Any:
            value = start(run)
            return value if type(value) is values.EvaluationFault else _follow(run, value, links)

        return resolve


class ConditionalAttribute(Chain):
    """A conditional: links go to the branch that is chosen."""

    def __init__(self, test: Step, first: Chain, second: Chain) -> None:
        super().__init__(test)
        self._test = test
        self._branches = (first, second)

    def add(self, link: AttributeLink) -> None:
        """Append a link to both branches."""
        for branch in self._branches:
            branch.add(link)

    def resolver(self) -> Step:
        """Return the function that resolves the value of the branch that the condition selects."""
        test = self._test
        first, second = (branch.resolver() for branch in self._branches)

        def resolve(run: EvaluationState) -> Any:
            chosen = test(run)
            if chosen is True:
                return first(run)
            if chosen is False:
                return second(run)
            return chosen if type(chosen) is values.EvaluationFault else values.NO_OVERLOAD

        return resolve


def _by_names(start: Step, names: tuple[str, ...]) -> Step:
    """Return the resolver of a chain of plain names, by far the most frequent."""

    def resolve(run: EvaluationState) -> Any:
        value = start(run)
        if type(value) is values.EvaluationFault:
            return value
        if type(value) is values.Optional:
            return _follow(run, value, tuple(AttributeLink(name) for name in names))
        for number, name in enumerate(names, 1):
            kind = type(value)
            if kind is dict:
                if name in value:
                    value = value[name]
                    continue
            elif kind is values.DomainMap:
                value = value.get(name, values.EMPTY)
                continue
            run.pay(number)
            return _missing(value, name)
        run.pay(len(names))
        return value

    return resolve


def _follow(run: EvaluationState, value: Any, links: tuple[AttributeLink, ...]) -> Any:
    optional = type(value) is values.Optional
    if optional:
        if not value.present:
            return value
        value = value.value
    for link in links:
        optional = optional or link.optional
        key = link.key
        if link.find_key is not None:
            key = link.find_key(run)
            if type(key) is values.EvaluationFault:
                run.pay(0 if optional else 1)
                return key
        found_value, found = look_up(value, key)
        if type(found_value) is values.EvaluationFault:
            run.pay(0 if optional else 1)
            return found_value
        if optional and not found:
            return values.NONE
        run.pay(1)
        if link.test and not optional:
            return found
        if not found:
            return _missing(value, key)
        value = found_value
    return values.Optional(value) if optional else value


def look_up(value: Any, key: Any) -> tuple[Any, bool]:
    """Return (element at a key, whether it exists); a Fault for a bad index."""
    if isinstance(value, dict):
        return values.find(value, key)
    if isinstance(value, list):
        index = _index(key)
        if type(index) is values.EvaluationFault:
            return index, False
        return (value[index], True) if 0 <= index < len(value) else (None, False)
    return None, False


def _index(key: Any) -> Any:
    if type(key) in (int, values.UInt):
        return int(key)
    if type(key) is float:
        if not math.isnan(key) and abs(key) < 2**63 and key == int(key):
            return int(key)
        return values.EvaluationFault(f"unsupported index value {values.shown_value(key)} in list")
    return values.EvaluationFault(f"unsupported index type '{values.type_name(key)}' in list")


def _missing(value: Any, key: Any) -> values.EvaluationFault:
    if isinstance(value, list):
        index = _index(key)
        return (
            index
            if type(index) is values.EvaluationFault
            else values.EvaluationFault(f"index out of bounds: {values.shown_value(key)}")
        )
    return values.EvaluationFault(f"no such key: {values.shown_value(key)}")
