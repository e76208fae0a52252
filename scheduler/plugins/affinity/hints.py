"""The queueing hints of InterPodAffinity: changes that may make a rejected pod feasible."""

from collections.abc import Iterable

import msgspec

from scheduler.framework import Change, Node, Pod
from scheduler.plugins.affinity.holders import TermHolders
from scheduler.plugins.affinity.terms import PodTerms, Term, pod_terms
from scheduler.state.namespacenames import NamespaceNames
from scheduler.state.podindex import PodIndex


class WaitingPod(msgspec.Struct, frozen=True):
    """A waiting pod with its terms, and the known namespaces and placed pods."""

    pod: Pod
    terms: PodTerms
    names: NamespaceNames
    holders: TermHolders
    placed: PodIndex

    def wants(self, pod: Pod | None) -> bool:
        """Return whether a pod satisfies the affinity: it matches all required terms at once."""
        terms = self.terms.affinity
        return pod is not None and bool(terms) and all(self._means(terms, pod))

    def avoids(self, pod: Pod) -> set[Term]:
        """Return the anti-affinity terms, of either pod, that keep the two apart."""
        terms = self.terms.anti_affinity
        found = {term for term, means in zip(terms, self._means(terms, pod), strict=True) if means}
        if pod.spec.affinity is not None:
            labels = self.names.labels(self.pod.metadata.namespace)
            found |= {t for t in pod_terms(pod).anti_affinity if t.matches(self.pod, labels)}
        return found

    def topology_keys(self) -> Iterable[str]:
        """Yield the topology keys of all required terms that select the pod."""
        for term in (*self.terms.affinity, *self.terms.anti_affinity):
            yield term.key
        labels = self.names.labels(self.pod.metadata.namespace)
        for existing, _ in self.holders.repelling(self.pod, labels):
            yield existing.term.key

    def _means(self, terms: Iterable[Term], pod: Pod) -> Iterable[bool]:
        labels = self.names.labels(pod.metadata.namespace)
        return (term.matches(pod, labels) for term in terms)


def may_help(change: Change, waiting: WaitingPod) -> bool:
    """Return whether a change may make a rejected pod feasible."""
    if change.kind == "Namespace":
        return _namespace_helps(change, waiting)
    if change.kind == "Node":
        return _node_helps(change, waiting)
    if change.pod.metadata.uid == waiting.pod.metadata.uid:
        old, new = change.old, change.new
        return old is None or new is None or old.metadata.labels != new.metadata.labels
    return _pod_helps(change, waiting)


def _pod_helps(change: Change, waiting: WaitingPod) -> bool:
    old: Pod | None = change.old
    new: Pod | None = change.new
    before, after = change.before, change.after
    has_moved = before is not None and after is not None and before.node != after.node
    if has_moved or old is None or new is None:
        return waiting.wants(new) or (old is not None and _is_rid_of(old, None, waiting))
    comes = waiting.wants(new) and not waiting.wants(old)
    return comes or _is_rid_of(old, new, waiting)


def _is_rid_of(old: Pod, new: Pod | None, waiting: WaitingPod) -> bool:
    """Return whether a pod stopped conflicting with the waiting one."""
    if waiting.wants(old) and not waiting.wants(new) and waiting.wants(waiting.pod):
        # if it was the last pod of the group, the waiting one may become the first again
        return True
    in_the_way = waiting.avoids(old)
    return bool(in_the_way) and (new is None or not in_the_way <= waiting.avoids(new))


def _node_helps(change: Change, waiting: WaitingPod) -> bool:
    old: Node | None = change.old
    new: Node | None = change.new
    if old is None and new is not None:
        near = [term.key for term in waiting.terms.affinity]
        return not near or any(key in new.metadata.labels for key in near)
    if old is None or new is None:
        # The pods of a deleted node are still known by its name; they no longer count.
        gone = waiting.placed.on(change.node.metadata.name).values()
        return any(_is_rid_of(placed.pod, None, waiting) for placed in gone)
    before, after = old.metadata.labels, new.metadata.labels
    return any(before.get(key) != after.get(key) for key in waiting.topology_keys())


def _namespace_helps(change: Change, waiting: WaitingPod) -> bool:
    terms = (*waiting.terms.affinity, *waiting.terms.anti_affinity)
    if any(term.namespace_selector is not None for term in terms):
        return True
    namespace = change.new if change.new is not None else change.old
    return bool(namespace.metadata.name == waiting.pod.metadata.namespace)
