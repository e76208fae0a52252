"""The order in which the workloads of an AppGroup are placed.

Pure and deterministic: the same spec gives the same order, whatever the hash seed. A workload is
identified by its selector or its name; if it is listed twice, its dependencies are joined.
Dependencies that the group does not list have no place in the order. The operator writes the order
into the status; before that, TopologicalSort computes it from the spec.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from scheduler.objects.groups.appgroup import Workload, WorkloadRef

DEFAULT_ALGORITHM = "KahnSort"
MOST_WORKLOADS = 1000  # workloads beyond this number have no place

Graph = dict[str, tuple[str, ...]]


class Order(msgspec.Struct, frozen=True):
    """The labels of the workloads in placement order; `cycle` is one cycle, if there is any.

    With a cycle no order respects all dependencies, and the workloads keep the listed order.
    """

    labels: tuple[str, ...]
    cycle: tuple[str, ...] = ()


def order_of(workloads: Sequence[Workload], algorithm: str) -> Order:
    """Return the order by one of `ALGORITHMS`; an unknown name is read as KahnSort."""
    graph = graph_of(workloads)
    cycle = cycle_in(graph)
    if cycle:
        return Order(tuple(graph), cycle)
    sort, arrange = ALGORITHMS.get(algorithm, ALGORITHMS[DEFAULT_ALGORITHM])
    return Order(tuple(arrange(sort(graph))))


def graph_of(workloads: Sequence[Workload]) -> Graph:
    """Return label → labels of its dependencies, both in listed order.

    A workload's dependency on itself does not affect the order and is left out, as is an entry that
    names no workload.
    """
    find = finder(workloads)
    named = [entry for entry in workloads if entry.workload.label]
    listed: dict[str, dict[str, None]] = {entry.workload.label: {} for entry in named}
    for entry in named:
        for dependency in entry.dependencies:
            label = find(dependency.workload)
            if label is not None and label != entry.workload.label:
                listed[entry.workload.label][label] = None
    return {label: tuple(on) for label, on in listed.items()}


def finder(workloads: Iterable[Workload]) -> Callable[[WorkloadRef], str | None]:
    """Return a function that finds a listed workload's label by selector or name, or returns
    None.
    """
    by_label: dict[str, str] = {}
    by_name: dict[str, str] = {}
    for entry in workloads:
        label = entry.workload.label
        by_label[label] = label
        by_name.setdefault(entry.workload.name, label)

    def find(ref: WorkloadRef) -> str | None:
        for name, known in ((ref.label, by_label), (ref.name, by_name), (ref.label, by_name)):
            if name and name in known:
                return known[name]
        return None

    return find


def cycle_in(graph: Graph) -> tuple[str, ...]:
    """Return the labels of one cycle, each depending on the next; empty if there is none."""
    done: set[str] = set()
    for start in graph:
        path: dict[str, int] = {}
        stack = [(start, iter(graph[start]))] if start not in done else []
        if stack:
            path[start] = 0
        while stack:
            label, ahead = stack[-1]
            following = next((one for one in ahead if one not in done), None)
            if following is None:
                stack.pop()
                del path[label]
                done.add(label)
            elif following in path:
                return tuple(path)[path[following] :]
            else:
                path[following] = len(path)
                stack.append((following, iter(graph[following])))
    return ()


def _kahn(graph: Graph) -> list[str]:
    """Return Kahn's order: next is the newest workload without dependents left.

    Of siblings the last listed comes first.
    """
    waiting = dict.fromkeys(graph, 0)
    for all_on in graph.values():
        for label in all_on:
            waiting[label] += 1
    stack = [label for label in reversed(graph) if not waiting[label]]
    found: list[str] = []
    while stack:
        label = stack.pop()
        found.append(label)
        for on in graph[label]:
            waiting[on] -= 1
            if not waiting[on]:
                stack.append(on)
    return found


def _tarjan(graph: Graph) -> list[str]:
    """Return Tarjan's order: depth first in listed order, reversed by finishing time."""
    finished: list[str] = []
    seen: set[str] = set()
    for start in graph:
        stack = [] if start in seen else [(start, iter(graph[start]))]
        seen.add(start)
        while stack:
            label, ahead = stack[-1]
            following = next((one for one in ahead if one not in seen), None)
            if following is None:
                finished.append(label)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(graph[following])))
    finished.reverse()
    return finished


def _as_is(labels: list[str]) -> list[str]:
    return labels


def _reversed(labels: list[str]) -> list[str]:
    return labels[::-1]


def _alternating(labels: list[str]) -> list[str]:
    """Return the labels in the order first, last, second, last but one, …"""
    count = len(labels)
    return [labels[i // 2] if i % 2 == 0 else labels[count - 1 - i // 2] for i in range(count)]


ALGORITHMS: dict[str, tuple[Callable[[Graph], list[str]], Callable[[list[str]], list[str]]]] = {
    "KahnSort": (_kahn, _as_is),
    "TarjanSort": (_tarjan, _as_is),
    "ReverseKahn": (_kahn, _reversed),
    "ReverseTarjan": (_tarjan, _reversed),
    "AlternateKahn": (_kahn, _alternating),
    "AlternateTarjan": (_tarjan, _alternating),
}
