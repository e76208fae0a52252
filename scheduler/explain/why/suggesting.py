"""Convert requirements to leave out into user changes, each tried by the engine before it is
suggested.

A request becomes the missing amount on a node. Where no empty node has that much, it becomes a
smaller request, or a larger node. Pods that repel this one become pods to delete. All other
requirements become changes of the pod.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from scheduler.base.arrays import BoolColumn
from scheduler.explain.why.edits import node_like, requesting
from scheduler.explain.why.records import SuggestedChange, Suggestion
from scheduler.explain.why.requirements import PodRequirement, taint_text, without_all
from scheduler.explain.why.trials import PodTrial
from scheduler.groups.planning.between import term_selects
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.objects.quantity import resource_amount, resource_text
from scheduler.plugins.nodeunschedulable import CORDON
from scheduler.state.resources import PODS, counted, pod_requests

MOST_NODES = 4  # nodes that are tried for one suggestion


class SuggestionSearch:
    """Make suggestions for the pod of `trials`."""

    def __init__(self, trials: PodTrial) -> None:
        self._trials, self._pod = trials, trials.pod
        self._nodes = trials.engine.attempt(trials.pod, trials.now).nodes

    def suggestion(self, given_up: Sequence[PodRequirement]) -> tuple[float, Suggestion] | None:
        """Return the distance (0 is nearest) and the change that replaces the requirements in
        `given_up`.

        None if no possible change was found to help.
        """
        of_nodes = [requirement for requirement in given_up if _is_of_node(requirement)]
        rest = [requirement for requirement in given_up if not _is_of_node(requirement)]
        if of_nodes:
            fitting = self._trials.rows(without_all(self._pod, given_up), given_up)
            able = fitting & self._can_ever(of_nodes)
            for distance, row in self._nearest(able, of_nodes):
                found = self._on_node(row, of_nodes, rest)
                if found is not None:
                    return distance + len(rest), found
            if not able.any() and (beyond := self._beyond(fitting, of_nodes, rest)) is not None:
                return beyond
        of_pod = [
            requirement
            for requirement in given_up
            if requirement.without is not None or not requirement.reasons
        ]
        if len(of_pod) < len(given_up):
            return None
        decision = self._trials.decision(without_all(self._pod, given_up), given_up)
        if decision is None or not decision.fits:
            return None
        changes = tuple(change for requirement in given_up for change in self._changes(requirement))
        text = f"fits {decision.node} {_joined([requirement.less for requirement in given_up])}"
        return 1.0 + len(given_up), Suggestion(decision.node, changes, text)

    def _nearest(
        self, fitting: BoolColumn, requirements: Sequence[PodRequirement]
    ) -> Iterator[tuple[float, int]]:
        """Yield the nodes that lack least, with the missing amount as a share of the request."""
        rows = np.flatnonzero(fitting)
        if not len(rows):
            return
        lack = np.zeros(len(rows))
        for resource, amount in self._wanted(requirements):
            free = (self._nodes.allocatable(resource) - self._nodes.requested(resource))[rows]
            lack += np.maximum(0, amount - free) / amount
        names = [self._nodes.name(int(row)) for row in rows]
        order = sorted(range(len(rows)), key=lambda at: (lack[at], names[at]))
        for at in order[:MOST_NODES]:
            yield float(lack[at]), int(rows[at])

    def largest(self, requirement: PodRequirement) -> tuple[int, bool] | None:
        """Return the largest amount of a resource on a node, if that is less than the pod's
        request.

        Counts the nodes that fit without this requirement; without any such node, all. The second
        value is whether nodes were excluded by other requirements.
        """
        if not requirement.resource:
            return None
        fitting = self._trials.rows(without_all(self._pod, [requirement]), [requirement])
        rows = fitting if fitting.any() else self._nodes.exists
        most = int(self._nodes.allocatable(requirement.resource)[rows].max(initial=0))
        wanted = counted(pod_requests(self._pod))[requirement.resource]
        return (most, int(rows.sum()) < self._nodes.count) if most < wanted else None

    def _can_ever(self, requirements: Sequence[PodRequirement]) -> BoolColumn:
        """Return the rows whose allocatable amounts suffice for `requirements`."""
        found = self._nodes.exists.copy()
        for resource, amount in self._wanted(requirements):
            found &= self._nodes.allocatable(resource) >= amount
        return found

    def _beyond(
        self,
        fitting: BoolColumn,
        requirements: Sequence[PodRequirement],
        rest: Sequence[PodRequirement],
    ) -> tuple[float, Suggestion] | None:
        """Return a suggestion for requests that exceed every node: smaller ones, else a larger
        node.
        """
        for distance, row in self._nearest(fitting, requirements):
            found = self._requesting_less(row, requirements, rest) or self._larger_node(
                row, requirements, rest
            )
            if found is not None:
                return distance + len(rest), found
        return None

    def _requesting_less(
        self, row: int, requirements: Sequence[PodRequirement], rest: Sequence[PodRequirement]
    ) -> Suggestion | None:
        """Return the requests with which the pod fits a node unchanged."""
        edited: Pod | None = without_all(self._pod, rest)
        changes, words = list[SuggestedChange](), list[str]()
        for resource, amount in self._wanted(requirements):
            free = int(
                self._nodes.allocatable(resource)[row] - self._nodes.requested(resource)[row]
            )
            if free >= amount:
                continue
            edited = None if edited is None or free <= 0 else requesting(edited, resource, free)
            text, field = resource_text(resource, free), f"requests[{resource}]"
            changes.append(SuggestedChange(f"Pod {self._pod.key}", field, "set", text))
            words.append(f"{text} {resource}")
        decision = None if edited is None else self._trials.decision(edited, rest)
        if decision is None or not decision.fits or not words:
            return None
        changes += [change for requirement in rest for change in self._changes(requirement)]
        also = f" {_joined([requirement.less for requirement in rest])}" if rest else ""
        text = f"fits {decision.node} with a request of {' and '.join(words)}{also}"
        return Suggestion(decision.node, tuple(changes), text)

    def _larger_node(
        self, row: int, requirements: Sequence[PodRequirement], rest: Sequence[PodRequirement]
    ) -> Suggestion | None:
        """Return a new node like one of the cluster, with the amounts of the pod's requests."""
        model = self._nodes.node(row)
        if model is None:
            return None
        node = _uncordoned(node_like(model, 0))
        changes = [SuggestedChange(f"Node {node.key}", "", "add", model.key)]
        words = list[str]()
        for resource, amount in self._wanted(requirements):
            if self._nodes.allocatable(resource)[row] < amount:
                node = _offering(node, resource, amount)
                text, field = resource_text(resource, amount), f"status.allocatable[{resource}]"
                changes.append(SuggestedChange(f"Node {node.key}", field, "set", text))
                words.append(f"{text} {resource}")
        with self._trials.changed(node):
            decision = self._trials.decision(without_all(self._pod, rest), rest)
        if decision is None or decision.node != node.key or not words:
            return None
        changes += [change for requirement in rest for change in self._changes(requirement)]
        also = f" {_joined([requirement.less for requirement in rest])}" if rest else ""
        text = f"fits a new node like {model.key} with {' and '.join(words)}{also}"
        return Suggestion(node.key, tuple(changes), text)

    def _wanted(self, requirements: Sequence[PodRequirement]) -> Iterator[tuple[str, int]]:
        requests = counted(pod_requests(self._pod))
        for requirement in requirements:
            if requirement.resource:
                yield requirement.resource, requests[requirement.resource]
            elif requirement.plugin == "NodeResourcesFit":
                yield PODS, 1

    def _on_node(
        self, row: int, requirements: Sequence[PodRequirement], rest: Sequence[PodRequirement]
    ) -> Suggestion | None:
        """Return the suggestion to enlarge or change this node, with the changes that `rest` needs;
        None if the pod still does not fit it.
        """
        before = self._nodes.node(row)
        if before is None:
            return None
        node, words, changes = before, [], []
        gone: tuple[Pod, ...] = ()
        for resource, amount in self._wanted(requirements):
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
        if any(CORDON in requirement.tolerates for requirement in requirements):
            node = _uncordoned(node)
            changes.append(SuggestedChange(f"Node {node.key}", "spec.unschedulable", "remove"))
            words.append(f"{node.key} were not cordoned")
        if any(requirement.plugin == "InterPodAffinity" for requirement in requirements):
            gone = self._repelling(row)
            if not gone:
                return None
            changes += [SuggestedChange(f"Pod {one.key}", "", "delete") for one in gone]
            words.append(f"{', '.join(one.key for one in gone)} were not there")
        if not changes:
            return None  # the node's amounts do not exclude the pod
        with self._trials.changed(node, gone):
            decision = self._trials.decision(without_all(self._pod, rest), rest)
        if decision is None or not decision.fits:
            return None
        changes += [change for requirement in rest for change in self._changes(requirement)]
        also = f" {_joined([requirement.less for requirement in rest])}" if rest else ""
        where = decision.node if decision.node == node.key else f"{decision.node} (by {node.key})"
        return Suggestion(
            decision.node, tuple(changes), f"fits {where}{also} if {' and '.join(words)}"
        )

    def _changes(self, requirement: PodRequirement) -> Iterator[SuggestedChange]:
        if requirement.plugin:
            name = self._pod.spec.scheduler_name
            points = ("preFilter", "filter") if requirement.is_pre_filter else ("filter",)
            for point in points:
                yield SuggestedChange(
                    f"Profile {name}", f"plugins.{point}", "disable", requirement.plugin
                )
            return
        yield from changes_of(requirement, f"Pod {self._pod.key}")

    def _repelling(self, row: int) -> tuple[Pod, ...]:
        """Return the pods whose anti-affinity excludes the pod from a node."""
        found = []
        for placed in self._trials.engine.view.placed:
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


def changes_of(requirement: PodRequirement, name: str) -> Iterator[SuggestedChange]:
    """Yield the changes of the pod called `name` that remove a requirement."""
    if not requirement.tolerates:
        yield SuggestedChange(name, requirement.field, "remove")
    for taint in requirement.tolerates:
        yield SuggestedChange(name, "spec.tolerations", "add", taint_text(taint))


def _is_of_node(requirement: PodRequirement) -> bool:
    return bool(requirement.resource or requirement.reasons or CORDON in requirement.tolerates)


def _larger(node: Node, resource: str, more: int) -> Node:
    offered = node.status.allocatable.get(resource, 0)
    return _offering(node, resource, resource_amount(resource, offered) + more)


def _offering(node: Node, resource: str, amount: int) -> Node:
    allocatable = {**node.status.allocatable, resource: resource_text(resource, amount)}
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
