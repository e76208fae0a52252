"""From asks to give up to something that somebody can do, tried once more as it is said.

A request that is too large for every node becomes an amount that one node lacks; pods that repel this one
become the pods to leave. What cannot be said of a node is said of the pod. Nothing is suggested that
the engine did not place.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from scheduler.base.arrays import BoolColumn
from scheduler.groups.planning.between import term_selects
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.objects.quantity import resource_amount, resource_text
from scheduler.plugins.nodeunschedulable import CORDON
from scheduler.state.resources import PODS, counted, pod_requests
from scheduler.whatif.why.asks import PodAsk, taint_text, without_all
from scheduler.whatif.why.records import SuggestedChange, Suggestion
from scheduler.whatif.why.trials import PodTrial

MOST_NODES = 4  # nodes that are tried for one suggestion


class SuggestionSearch:
    """Makes suggestions for the pod of `trials`."""

    def __init__(self, trials: PodTrial) -> None:
        self._trials, self._pod = trials, trials.pod
        self._nodes = trials.engine.attempt(trials.pod, trials.now).nodes

    def suggestion(self, given_up: Sequence[PodAsk]) -> tuple[float, Suggestion] | None:
        """Return how near it is (0 is nearest) and what to do instead of asking `given_up`.

        None where nothing that can be done was found to help.
        """
        of_nodes = [ask for ask in given_up if _is_of_node(ask)]
        rest = [ask for ask in given_up if not _is_of_node(ask)]
        if of_nodes:
            fitting = self._trials.rows(without_all(self._pod, given_up), given_up)
            for distance, row in self._nearest(fitting, of_nodes):
                found = self._on_node(row, of_nodes, rest)
                if found is not None:
                    return distance + len(rest), found
        of_pod = [ask for ask in given_up if ask.without is not None or not ask.reasons]
        if len(of_pod) < len(given_up):
            return None
        decision = self._trials.decision(without_all(self._pod, given_up), given_up)
        if decision is None or not decision.fits:
            return None
        changes = tuple(change for ask in given_up for change in self._changes(ask))
        text = f"fits {decision.node} {_joined([ask.less for ask in given_up])}"
        return 1.0 + len(given_up), Suggestion(decision.node, changes, text)

    def _nearest(self, fitting: BoolColumn, asks: Sequence[PodAsk]) -> Iterator[tuple[float, int]]:
        """Yield the nodes that lack least, with what they lack as a share of what is asked."""
        rows = np.flatnonzero(fitting)
        if not len(rows):
            return
        lack = np.zeros(len(rows))
        for resource, amount in self._wanted(asks):
            free = (self._nodes.allocatable(resource) - self._nodes.requested(resource))[rows]
            lack += np.maximum(0, amount - free) / amount
        names = [self._nodes.name(int(row)) for row in rows]
        order = sorted(range(len(rows)), key=lambda at: (lack[at], names[at]))
        for at in order[:MOST_NODES]:
            yield float(lack[at]), int(rows[at])

    def _wanted(self, asks: Sequence[PodAsk]) -> Iterator[tuple[str, int]]:
        requests = counted(pod_requests(self._pod))
        for ask in asks:
            if ask.resource:
                yield ask.resource, requests[ask.resource]
            elif ask.plugin == "NodeResourcesFit":
                yield PODS, 1

    def _on_node(
        self, row: int, asks: Sequence[PodAsk], rest: Sequence[PodAsk]
    ) -> Suggestion | None:
        """Return what to change on a node (and, for `rest`, elsewhere), if the pod goes there then."""
        before = self._nodes.node(row)
        if before is None:
            return None
        node, words, changes = before, [], []
        gone: tuple[Pod, ...] = ()
        for resource, amount in self._wanted(asks):
            free = self._nodes.allocatable(resource)[row] - self._nodes.requested(resource)[row]
            short = amount - int(free)
            if short <= 0:
                continue
            node = _larger(node, resource, short)
            text = resource_text(resource, short)
            changes.append(
                SuggestedChange(f"Node {node.key}", f"status.allocatable[{resource}]", "add", text)
            )
            words.append(
                f"{node.key} took one more pod"
                if resource == PODS
                else f"{text} more {resource} were free"
            )
        if any(CORDON in ask.tolerates for ask in asks):
            node = _uncordoned(node)
            changes.append(SuggestedChange(f"Node {node.key}", "spec.unschedulable", "remove"))
            words.append(f"{node.key} were not cordoned")
        if any(ask.plugin == "InterPodAffinity" for ask in asks):
            gone = self._repelling(row)
            if not gone:
                return None
            changes += [SuggestedChange(f"Pod {one.key}", "", "delete") for one in gone]
            words.append(f"{', '.join(one.key for one in gone)} were not there")
        if not changes:
            return None  # it is not what the node has that keeps the pod off it
        with self._trials.changed(node, gone):
            decision = self._trials.decision(without_all(self._pod, rest), rest)
        if decision is None or not decision.fits:
            return None
        changes += [change for ask in rest for change in self._changes(ask)]
        also = f" {_joined([ask.less for ask in rest])}" if rest else ""
        where = decision.node if decision.node == node.key else f"{decision.node} (by {node.key})"
        return Suggestion(
            decision.node, tuple(changes), f"fits {where}{also} if {' and '.join(words)}"
        )

    def _changes(self, ask: PodAsk) -> Iterator[SuggestedChange]:
        if ask.plugin:
            name = self._pod.spec.scheduler_name
            points = ("preFilter", "filter") if ask.is_pre_filter else ("filter",)
            for point in points:
                yield SuggestedChange(f"Profile {name}", f"plugins.{point}", "disable", ask.plugin)
            return
        yield from changes_of(ask, f"Pod {self._pod.key}")

    def _repelling(self, row: int) -> tuple[Pod, ...]:
        """Return the pods whose anti-affinity keeps the pod off a node."""
        found = []
        for placed in self._trials.engine.cluster.pods:
            affinity = placed.pod.spec.affinity
            if affinity is None or affinity.pod_anti_affinity is None:
                continue
            there = self._nodes.row(placed.node)
            if there is None:
                continue
            for term in affinity.pod_anti_affinity.required:
                ids = self._nodes.label_ids(term.topology_key)
                is_near = ids[row] >= 0 and ids[row] == ids[there]
                if is_near and term_selects(term, placed.pod, self._pod):
                    found.append(placed.pod)
                    break
        return tuple(sorted(found, key=lambda pod: pod.key))


def changes_of(ask: PodAsk, name: str) -> Iterator[SuggestedChange]:
    """Yield what to change on the pod called `name` so that it does not ask something."""
    if not ask.tolerates:
        yield SuggestedChange(name, ask.field, "remove")
    for taint in ask.tolerates:
        yield SuggestedChange(name, "spec.tolerations", "add", taint_text(taint))


def _is_of_node(ask: PodAsk) -> bool:
    return bool(ask.resource or ask.reasons or CORDON in ask.tolerates)


def _larger(node: Node, resource: str, more: int) -> Node:
    offered = node.status.allocatable
    amount = resource_amount(resource, offered.get(resource, 0)) + more
    allocatable = {**offered, resource: resource_text(resource, amount)}
    return replace(node, status=replace(node.status, allocatable=allocatable))


def _uncordoned(node: Node) -> Node:
    taints = tuple(taint for taint in node.spec.taints if taint != CORDON)
    return replace(node, spec=replace(node.spec, unschedulable=False, taints=taints))


def _joined(parts: Sequence[str]) -> str:
    """Join `without its a`, `without its b` and `with c` to `without its a and b and with c`."""
    words: list[str] = []
    last = ""
    for part in sorted(parts, key=lambda part: part.split(" ", 1)[0], reverse=True):
        lead, _, rest = part.partition(" ")
        words.append(rest.removeprefix("its ") if lead == last else part)
        last = lead
    return " and ".join(words)
