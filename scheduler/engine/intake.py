"""Step 2 of a pod's path: from an event to a change of the cluster, and to the parts that follow
it.

Each watched object goes to the one owner of its fact: placed pods, nodes and other objects to
`Cluster`, unplaced pods to `Queues`, pods in flight to `Bindings`. Every change of the cluster,
also one by the engine itself, passes through `announce`: trackers follow it, waiting pods are
woken. If a change ends a pod's binding, it is put into `changes` behind that end, and the engine
processes it from there.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from scheduler.base.clock import parse_rfc3339
from scheduler.engine.attempt.suspended import SuspendedCycles
from scheduler.engine.binding.bindings import Bindings
from scheduler.engine.binding.nominations import Nominations
from scheduler.engine.binding.reservations import PLAN_KIND, Reservations
from scheduler.engine.derivation import Derivation
from scheduler.engine.effects import Complete
from scheduler.engine.queue.queues import Queues
from scheduler.objects.finished import FINISHED, kept
from scheduler.objects.groups.derivedgroups import KIND as DERIVED
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.state import facts
from scheduler.state.change import Change
from scheduler.state.cluster import Cluster
from scheduler.state.counts.tracker import Tracker, TrackerKey, counts_such, hears_of
from scheduler.state.store import object_key
from scheduler.state.view import LiveView


class Intake:
    """Applies events; the only caller of `Cluster.put_*` and `drop_*` in the engine."""

    def __init__(
        self,
        cluster: Cluster,
        queues: Queues,
        bindings: Bindings,
        suspended: SuspendedCycles,
        nominations: Nominations,
        schedulers: Iterable[str],
        trackers: Mapping[TrackerKey, Tracker],
        changes: deque[Any],
        derivation: Derivation,
        names_group: Callable[[Pod], bool],
    ) -> None:
        self._cluster = cluster
        self._queues = queues
        self._bindings = bindings
        self._suspended = suspended
        self._nominations = nominations
        self._schedulers = frozenset(schedulers)
        self._changes = changes
        self._derivation = derivation
        self._names_group = names_group
        self.label = ""  # of the first change that the latest object has led to
        self.trackers = trackers
        self._known_trackers = 0
        self._following: dict[str, tuple[Tracker, ...]] = {}
        self._key = object()
        self.view = LiveView(cluster)
        self.reservations = Reservations(
            cluster, nominations, lambda pod: changes.append(capacity_freed(pod))
        )
        self.synced: set[str] = set()
        # Whether this process has started to lead; written by the engine.
        self.has_led = False
        # Kinds whose objects may be newer at the API server: no decision is made meanwhile.
        self.behind: set[str] = set()

    def take(self, kind: str, obj: Any, now: float, *, is_deleted: bool) -> None:
        """Apply one object; ObjectError for an invalid one, which changes nothing."""
        self.label = ""
        if kind == "Pod":
            obj = self._derivation.with_group(obj)
            if is_deleted or obj.is_finished:
                self._pod_gone(obj, now)
                self._keep_finished(obj, is_deleted=is_deleted)
            elif obj.spec.node_name:
                self._pod_bound(obj, now)
            elif obj.spec.scheduler_name in self._schedulers:
                self._pod_waiting(obj, now)
        elif kind == "Node":
            self.announce(self._node_change(obj, is_deleted=is_deleted), now)
        else:
            drop, put = self._cluster.drop_object, self._cluster.put_object
            change = drop(kind, obj) if is_deleted else put(kind, obj)
            self.announce(change, now)
            if kind == PLAN_KIND:
                self.reservations.planned(now)
            if kind in self._derivation.kinds:
                self._derive_groups(change, now)
            elif self._derivation.requests_differ(change):
                self._derive_anew(object_key(obj), now)

    def _derive_groups(self, change: Change, now: float) -> None:
        """Follow a change of a workload: put and drop the groups that it makes."""
        gone, new = self._derivation.changed(change)
        for group in gone:
            self.announce(self._cluster.drop_object(DERIVED, group), now)
        for group in new:
            self.announce(self._cluster.put_object(DERIVED, group), now)

    def _derive_anew(self, namespace: str, now: float) -> None:
        """Apply a namespace's pods again whose derived group changed with the namespace's
        annotation.

        A pod whose binding is in flight follows with its next event.
        """
        for pod in list(self._known("Pod")):
            is_there = pod.metadata.namespace == namespace
            if is_there and self._bindings.get(pod.metadata.uid) is None:
                fresh = self._derivation.with_group(pod)
                if fresh is not pod:
                    self._suspended.drop(pod.metadata.uid)
                    self._queues.remove(pod.metadata.uid)
                    self.take("Pod", fresh, now, is_deleted=False)

    def missing_in(self, event: Complete) -> list[Any]:
        """Return the known objects of a kind that a full list lacks: they are deleted."""
        keys = frozenset(event.keys)
        return [obj for obj in self._known(event.kind) if identity(obj) not in keys]

    def listed(self, kind: str, *, is_denied: bool) -> None:
        """Record that a full list of a kind was applied, or was denied to this process."""
        self._cluster.store.of(kind).is_denied = is_denied
        self.synced.add(kind)
        self.behind.discard(kind)

    def announce(self, change: Change, now: float) -> None:
        """Pass a change of the cluster to trackers, bindings and queues."""
        self.follow(change)
        self.wake(change, now)

    def follow(self, change: Change) -> None:
        """Let trackers and views follow a change."""
        self.label = self.label or change.label
        if change.kind:
            is_pod = change.kind == "Pod"
            for tracker in self._pod_followers(change) if is_pod else self._followers(change.kind):
                tracker.apply(change)
            self.view.note(change)
            if self.reservations.by_node:
                self.reservations.followed(change)

    def _pod_followers(self, change: Change) -> tuple[Tracker, ...]:
        """Return the trackers that may count the pod, looked up by its shape."""
        followers = self._followers("Pod")
        before, after = change.before, change.after
        placed = after if after is not None else before
        if placed is None or (before is not None and before.shape is not placed.shape):
            return followers
        derived = placed.shape.derived
        known: tuple[Any, tuple[Tracker, ...]] | None = derived.get(self._key)
        if known is None or known[0] is not followers:
            counting = tuple(one for one in followers if counts_such(one, placed))
            known = derived[self._key] = (followers, counting)
        return known[1]

    def _followers(self, kind: str) -> tuple[Tracker, ...]:
        """Return the trackers that follow changes of a kind, in creation order."""
        if len(self.trackers) != self._known_trackers:
            self._known_trackers = len(self.trackers)
            self._following.clear()
        found = self._following.get(kind)
        if found is None:
            hearing = (one for one in self.trackers.values() if hears_of(one, kind))
            found = self._following[kind] = tuple(hearing)
        return found

    def is_placed(self, uid: str) -> bool:
        """Return whether a pod is bound or assumed."""
        return self._cluster.pods.get(uid) is not None

    def wake(self, change: Change, now: float, *, but: str = "") -> None:
        """Wake pods and bindings that wait for such a change, except the pod with uid `but` that
        caused it.
        """
        if change.facts:
            self._bindings.changed(change.facts, now)
            self._queues.wake(change, now, but=but)
            self._wake_nominated(change, now, but=but)

    def _wake_nominated(self, change: Change, now: float, *, but: str) -> None:
        """Retry pods nominated to a node that changes, or that a pod leaves.

        The nomination may be stale. Queueing hints do not cover this case, and a stale nomination
        would block the node forever.
        """
        if not self._nominations:
            return
        node = ""
        if change.kind == "Node":
            node = change.node.metadata.name
        elif change.verb == "delete" and change.before is not None:
            node = change.before.node
        nominated = [uid for uid in self._nominations.on(node) if uid != but]
        self._queues.retry(nominated, change.label, now)

    def _node_change(self, node: Node, *, is_deleted: bool) -> Change:
        if is_deleted:
            return self._cluster.drop_node(node.metadata.name)
        return self._cluster.put_node(node)

    def _pod_bound(self, pod: Pod, now: float) -> None:
        uid = pod.metadata.uid
        change = self._cluster.put_pod(pod)
        nominated = self._nominations.drop(uid)
        in_flight = self._bindings.get(uid)
        if in_flight is not None and in_flight.node == pod.spec.node_name:
            in_flight.queued.renew(pod)
            self._bindings.confirmed(uid, now)
        elif in_flight is not None:
            self._bindings.abandon(uid, now)
        self._suspended.drop(uid)
        self._queues.remove(uid)
        self._changes.append(change)
        if nominated not in ("", pod.spec.node_name):
            self._changes.append(capacity_freed(pod))

    def _pod_gone(self, pod: Pod, now: float) -> None:
        uid = pod.metadata.uid
        change = self._cluster.drop_pod(uid)
        self._bindings.abandon(uid, now)
        self._suspended.drop(uid)
        waited = self._queues.remove(uid)
        nominated = self._nominations.drop(uid)
        self._changes.append(change)
        if nominated and not change.kind:
            self._changes.append(capacity_freed(pod))
        if waited is not None and not waited.pod.is_terminating:
            self._changes.append(gave_up(pod))

    def _keep_finished(self, pod: Pod, *, is_deleted: bool) -> None:
        """Keep a finished pod that was bound and names a group; drop it when it is deleted."""
        known = self._cluster.store.of(FINISHED).get(pod.key)
        if not is_deleted and pod.spec.node_name and self._names_group(pod):
            self._changes.append(self._cluster.put_object(FINISHED, kept(pod)))
        elif is_deleted and known is not None and known.metadata.uid == pod.metadata.uid:
            self._changes.append(self._cluster.drop_object(FINISHED, pod))

    def _pod_waiting(self, pod: Pod, now: float) -> None:
        uid = pod.metadata.uid
        in_flight = self._bindings.get(uid)
        if in_flight is not None:
            # Other pods' rules must count its labels, and preemption must know that it is
            # terminating.
            self.announce(self._cluster.renew(pod), now)
            self._queues.update(self._own_change(in_flight.queued.pod, pod), now)
            if pod.is_terminating and uid in self._bindings.waiting:
                self._bindings.abandon(uid, now)
            return
        placed = self._cluster.pods.get(uid)
        if placed is not None and placed.assumed:
            # This process has bound the pod, and the watch is behind: this version is older than
            # the known one.
            return
        if placed is not None:
            # The API server takes a binding back only when it was restored from a backup.
            self.announce(self._cluster.drop_pod(uid), now)
        queued = self._queues.get(uid)
        if queued is None:
            if not pod.is_terminating:
                self._nominations.put(pod, pod.status.nominated_node_name)
                self._queues.add(pod, now, since=self._queued_since(pod, now))
            return
        self._nominate_anew(queued.pod, pod, now)
        self._queues.update(self._own_change(queued.pod, pod), now)

    def _queued_since(self, pod: Pod, now: float) -> float:
        """Return the time that orders a new pod.

        Before this process leads, that is the pod's creation: the order of the list would change
        pods' places at a restart.
        """
        created = None if self.has_led else parse_rfc3339(pod.metadata.creation_timestamp)
        return now if created is None else min(created, now)

    def _nominate_anew(self, old: Pod, pod: Pod, now: float) -> None:
        """Follow a nomination that another client changed; the engine's own are in memory already.

        A terminating pod will not be bound, so its reserved capacity is free from now on.
        """
        if pod.is_terminating:
            if self._nominations.drop(pod.metadata.uid):
                self.announce(capacity_freed(pod), now)
            if not old.is_terminating:
                self._changes.append(gave_up(pod))
            return
        before, after = old.status.nominated_node_name, pod.status.nominated_node_name
        if before != after:
            known = self._nominations.node_of(pod.metadata.uid)
            if known in (before, after):
                self._nominations.put(pod, after)
            if before:
                self.announce(capacity_freed(old), now)
        elif self._nominations.node_of(pod.metadata.uid):
            self._nominations.put(pod, self._nominations.node_of(pod.metadata.uid))

    def _own_change(self, old: Pod, pod: Pod) -> Change:
        before, after = self._cluster.shapes.of(old), self._cluster.shapes.of(pod)
        shrank = any(
            amount > after.requests.get(name, 0) for name, amount in before.requests.items()
        )
        changed = facts.waiting_facts(old, pod, shrank=shrank)
        label = next(
            (text for fact, text in facts.SELF_LABEL_OF.items() if fact in changed),
            "UnschedulablePodUpdate",
        )
        return Change("Pod", "update", changed, label, old, pod)

    def _known(self, kind: str) -> Iterable[Any]:
        if kind == "Pod":
            known = {placed.pod.metadata.uid: placed.pod for placed in self._cluster.pods}
            known |= {queued.uid: queued.pod for queued in self._queues}
            finished = self._cluster.store.of(FINISHED).values()
            known |= {pod.metadata.uid: pod for pod in finished}
            return known.values()
        if kind == "Node":
            return [node for node in self._cluster.table.nodes if node is not None]
        return self._cluster.store.of(kind).values()


def identity(obj: Any) -> str:
    """Return the identity of an object within its kind: a pod's uid, any other's name."""
    return obj.metadata.uid if isinstance(obj, Pod) else object_key(obj)


def capacity_freed(pod: Pod) -> Change:
    """Return the change for a nomination that ended: it frees capacity, like a pod's deletion."""
    return Change("Pod", "delete", frozenset((facts.POD_DELETED,)), "AssignedPodDelete", pod)


def gave_up(pod: Pod) -> Change:
    """Return the change for a pod that no longer waits: members that wait with it need one node
    less.
    """
    gone = frozenset((facts.WAITING_DELETED,))
    return Change("Pod", "delete", gone, "UnschedulablePodDelete", pod)
