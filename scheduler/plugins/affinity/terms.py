"""Affinity terms parsed from a pod's spec.

They do not depend on nodes or other pods, so they are computed once per shape of pods.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from scheduler.framework import Pod
from scheduler.objects.meta import LabelSelector
from scheduler.objects.pod import PodAffinity, PodAffinityTerm
from scheduler.objects.selectors import requirements_match
from scheduler.plugins.podselection import selector_fault, with_label_keys
from scheduler.state.selection import Expressions, Selection, expressions_of

Labels: TypeAlias = Mapping[str, str]


class Term(msgspec.Struct, frozen=True, cache_hash=True):
    """A selection of pods by namespaces and labels, in the domains of one topology key.

    `namespace_selector` None adds no namespaces; `expressions` None selects no pod.
    """

    key: str
    namespaces: frozenset[str]
    namespace_selector: Expressions | None
    expressions: Expressions | None

    def matches(self, pod: Pod, namespace_labels: Labels) -> bool:
        """Return whether the term selects a pod, in a namespace with these labels."""
        meta = pod.metadata
        return (
            self.expressions is not None
            and (
                meta.namespace in self.namespaces
                or (
                    self.namespace_selector is not None
                    and requirements_match(self.namespace_selector, namespace_labels)
                )
            )
            and requirements_match(self.expressions, meta.labels)
        )

    def selection(self, matching: Callable[[Expressions], frozenset[str]]) -> Selection | None:
        """Return the selection of the pods that match, or None if no pod can match.

        `matching` returns the names of the namespaces whose labels satisfy expressions.
        """
        if self.expressions is None:
            return None
        selector = self.namespace_selector
        if selector is None:
            return Selection(self.namespaces, self.expressions)
        if not selector:  # an empty selector matches every namespace, also a later one
            return Selection(None, self.expressions)
        return Selection(self.namespaces | matching(selector), self.expressions)

    def place(self) -> Selection:
        """Return a selection that contains all pods that the term can select, for the index."""
        everywhere = self.namespace_selector is not None
        return Selection(None if everywhere else self.namespaces, self.expressions or ())


Weighted = tuple[Term, int]


class PodTerms(msgspec.Struct, frozen=True):
    """All terms of a pod; `preferred` weights are negative for anti-affinity.

    A kind of term is left out if one of its terms does not parse; `fault` has the error.
    """

    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    preferred: tuple[Weighted, ...] = ()
    has_preferred: bool = False
    fault: str = ""

    @property
    def has_required(self) -> bool:
        """Return whether some term is required."""
        return bool(self.affinity or self.anti_affinity)


NO_TERMS = PodTerms()
_NONE = PodAffinity()


def pod_terms(pod: Pod) -> PodTerms:
    """Return the terms of a pod's spec."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    near, far = affinity.pod_affinity or _NONE, affinity.pod_anti_affinity or _NONE
    faults: list[str] = []
    required = _terms(pod, near.required, "requiredAffinityTerms", faults)
    anti = _terms(pod, far.required, "requiredAntiAffinityTerms", faults)
    preferred: list[Weighted] = []
    for one, sign, name in (
        (near, 1, "preferredAffinityTerms"),
        (far, -1, "preferredAntiAffinityTerms"),
    ):
        terms = _terms(
            pod, [weighted.pod_affinity_term for weighted in one.preferred], name, faults
        )
        weights = [sign * weighted.weight for weighted in one.preferred]
        preferred += zip(terms, weights, strict=False)
    return PodTerms(
        required,
        anti,
        tuple(preferred),
        bool(near.preferred or far.preferred),
        ", ".join(faults) if len(faults) < 2 else f"[{', '.join(faults)}]",
    )


def _terms(
    pod: Pod, written: Sequence[PodAffinityTerm], name: str, faults: list[str]
) -> tuple[Term, ...]:
    """Read the terms of one kind; empty if one of them is invalid."""
    for one in written:
        fault = selector_fault(one.label_selector) or selector_fault(one.namespace_selector)
        if fault:
            faults.append(f"{name}: {fault}")
            return ()
    return tuple(_term(pod, one) for one in written)


def _term(pod: Pod, written: PodAffinityTerm) -> Term:
    meta = pod.metadata
    selector = written.namespace_selector
    names = written.namespaces
    if not names and selector is None:
        names = (meta.namespace,)
    same = _unmerged(written.match_label_keys, written.label_selector)
    other = _unmerged(written.mismatch_label_keys, written.label_selector)
    return Term(
        written.topology_key,
        frozenset(names),
        None if selector is None else expressions_of(selector),
        with_label_keys(written.label_selector, meta.labels, same, other),
    )


def _unmerged(keys: Sequence[str], selector: LabelSelector | None) -> list[str]:
    """Return the label keys that the API server has not merged into the selector yet.

    It merges them when the pod is created, with the labels of that time; otherwise a key must not
    be in both places.
    """
    if not keys or selector is None:
        return []
    written = {expression.key for expression in selector.match_expressions}
    return [key for key in keys if key not in written and key not in selector.match_labels]
