"""`Selection`: a selector of pods by namespace and labels; and an index of selections.

A selection is canonical and hashable: equal selectors of different pods are one selection. The
index stores each selection under one of its label pairs, so a lookup for a pod reads only the
selections under the pod's labels.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec

from scheduler.objects.meta import LabelSelector, LabelSelectorRequirement
from scheduler.objects.selectors import requirements_match

Expressions = tuple[LabelSelectorRequirement, ...]
Pair = tuple[str, str]

ItemT = TypeVar("ItemT")
_Place = tuple[str | None, Pair | None]


def pair(key: str, value: str) -> LabelSelectorRequirement:
    """Return the expression "label `key` is `value`"."""
    return LabelSelectorRequirement(key, "In", (value,))


def canonical(expressions: Iterable[LabelSelectorRequirement]) -> Expressions:
    """Return ANDed expressions in canonical order, without duplicates."""
    distinct = {
        LabelSelectorRequirement(e.key, e.operator, tuple(sorted(set(e.values))))
        for e in expressions
    }
    return tuple(sorted(distinct, key=lambda e: (e.key, e.operator, e.values)))


def expressions_of(selector: LabelSelector) -> Expressions:
    """Return a label selector as expressions alone."""
    pairs = [pair(key, value) for key, value in selector.match_labels.items()]
    return canonical([*pairs, *selector.match_expressions])


def pairs_of(expressions: Expressions) -> tuple[Pair, ...]:
    """Return label pairs, one of which every matching pod has; () if there are none."""
    lists = [e for e in expressions if e.operator == "In"]
    if not lists:
        return ()
    shortest = min(lists, key=lambda e: len(e.values))
    return tuple((shortest.key, value) for value in shortest.values)


class Selection(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Pods of `namespaces` (None: of all) whose labels satisfy all `expressions`.

    `terminating` states whether terminating pods are selected as well.
    """

    namespaces: frozenset[str] | None
    expressions: Expressions
    terminating: bool = True

    def matches(
        self, namespace: str, labels: Mapping[str, str], *, is_terminating: bool = False
    ) -> bool:
        """Return whether a pod with these properties is selected."""
        return (
            (self.namespaces is None or namespace in self.namespaces)
            and (self.terminating or not is_terminating)
            and requirements_match(self.expressions, labels)
        )

    def and_also(self, other: "Selection") -> "Selection":
        """Return the selection of the pods in both selections."""
        if self.namespaces is None or other.namespaces is None:
            namespaces = other.namespaces if self.namespaces is None else self.namespaces
        else:
            namespaces = self.namespaces & other.namespaces
        return Selection(
            namespaces,
            canonical([*self.expressions, *other.expressions]),
            self.terminating and other.terminating,
        )


class SelectionIndex(Generic[ItemT]):
    """Values by their selections, to find those that may select a pod; `version` changes with each
    change.
    """

    def __init__(self) -> None:
        self._items: dict[_Place, dict[ItemT, None]] = {}
        self.version = 0

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, selection: Selection, item: ItemT) -> None:
        """Add a value under its selection."""
        self.version += 1
        for place in _places(selection):
            self._items.setdefault(place, {})[item] = None

    def remove(self, selection: Selection, item: ItemT) -> None:
        """Remove a value that was added under this selection."""
        self.version += 1
        for place in _places(selection):
            items = self._items[place]
            del items[item]
            if not items:
                del self._items[place]

    def clear(self) -> None:
        """Remove all values."""
        self.version += 1
        self._items.clear()

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> list[ItemT]:
        """Return all values whose selection may select a pod, each once; some may not select it."""
        found: list[ItemT] = []
        for where in (namespace, None):
            for place in ((where, None), *((where, label) for label in labels.items())):
                items = self._items.get(place)
                if items is not None:
                    found += items
        return found


def _places(selection: Selection) -> Iterator[_Place]:
    """Yield the keys under which a selection is stored; a pod that it selects has exactly one of
    them.
    """
    pairs = pairs_of(selection.expressions) or (None,)
    for namespace in (None,) if selection.namespaces is None else selection.namespaces:
        for label in pairs:
            yield namespace, label
