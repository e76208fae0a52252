"""Input objects → `Snapshot`: the structs of a cluster, sorted by their role.

Strict where silence would mislead: an object of a kind that Trellis reads must be readable,
complete and unique; InputError names it, its location and the field. New objects pass admission,
workloads are replaced by their pods. A kind is rejected unless it is known to have no effect.
Called by the command line and by `batch`; independent of profiles.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from scheduler.base.clock import parse_rfc3339
from scheduler.base.errors import InputError, ObjectError
from scheduler.base.release import Release, read_release
from scheduler.controlplane.admission import LIMIT_RANGE
from scheduler.controlplane.claims import ephemeral_volume_claims
from scheduler.groups.sources import registry as sources
from scheduler.objects import kinds
from scheduler.objects.groups.derivedgroups import OWNER_LABELS
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.snapshot.admission import (
    DEFAULTED,
    RESOURCE_QUOTA,
    ClusterAdmission,
    capacity_of,
    class_of,
    kubelet_of,
)
from scheduler.snapshot.admission import READ as ADMISSION_KINDS
from scheduler.snapshot.checks import check_node, check_pod
from scheduler.snapshot.copying import free_name, pod_copy, regrouped, workload_copy
from scheduler.snapshot.daemons import DaemonTemplate
from scheduler.snapshot.decoding import decoded, is_workload, kind_of, plain_of, read_workload
from scheduler.snapshot.documents import Head, Item
from scheduler.snapshot.notices import astray, has_no_bearing, notices
from scheduler.snapshot.quotas import exceeded_quotas, violated_ranges
from scheduler.snapshot.workloads.found import MAX_PODS, FoundWorkload, SnapshotSurroundings
from scheduler.snapshot.workloads.owned import OwnedPods
from scheduler.snapshot.workloads.table import KINDS, missing_objects

# The time of a snapshot without timestamps (2026-01-01T00:00:00Z).
NO_TIME: Final = 1767225600.0
_CLAIM: Final = "PersistentVolumeClaim"


class Snapshot(msgspec.Struct, frozen=True):
    """The state of a cluster at one time.

    `objects` are (kind, struct) of everything but nodes and pods; `bound` pods are on a node, known
    or not; `unbound` ones are neither bound nor terminating, oldest first; the `ended` ones are not
    scheduled. `given` are the uids of unbound pods that were given apart from the cluster, to be
    placed whatever their schedulerName. `daemons` make the pods of added nodes. `taken_at` is the
    newest time in any object, in seconds since the epoch. `release` is that of the API server: as
    its list states it, else that of the newest kubelet, None if neither is known. `origins` are
    workloads from which groups may be derived.
    """

    nodes: tuple[Node, ...] = ()
    objects: tuple[tuple[str, Any], ...] = ()
    bound: tuple[Pod, ...] = ()
    unbound: tuple[Pod, ...] = ()
    ended: tuple[Pod, ...] = ()
    given: frozenset[str] = frozenset()
    taken_at: float = NO_TIME
    places: Mapping[tuple[str, str], str] = {}
    notices: tuple[str, ...] = ()
    daemons: tuple[DaemonTemplate, ...] = ()
    release: Release | None = None
    origins: tuple[tuple[str, Any], ...] = ()

    def find(self, key: str) -> Pod | None:
        """Return the bound or pending pod of that `namespace/name`, or None."""
        return next((pod for pod in (*self.bound, *self.unbound) if pod.key == key), None)

    def place(self, kind: str, key: str) -> str:
        """Return the description of an object for errors: its location, kind and name."""
        where = self.places.get((kind, key), "")
        return f"{where}: {kind} {key}" if where else f"{kind} {key}"


def read_snapshot(
    items: Iterable[Item], given: Iterable[Item] = (), *, is_alone: bool = False
) -> Snapshot:
    """Return a cluster, with the objects `given` apart from it.

    InputError states fault and location. `is_alone` states that the cluster of the objects is not
    available.
    """
    reader = SnapshotReader(is_alone=is_alone)
    reader.read(items)
    reader.read(given, are_given=True)
    return reader.snapshot()


class SnapshotReader:
    """Read objects in any number of parts; workloads make `max_made` pods at most."""

    def __init__(
        self,
        max_made: int = MAX_PODS,
        *,
        is_alone: bool = False,
        as_copies: bool = False,
        makes_pods: bool = True,
    ) -> None:
        """With `as_copies` every given pod and workload is one more copy, even if the cluster has
        one of its name.

        Without `makes_pods` only existing pods count; their workloads are read for selectors.
        """
        self._makes_pods = makes_pods
        self._as_copies = as_copies
        self._own: set[tuple[str, str]] = set()
        self._clashing: list[tuple[str, str]] = []
        self._allowed = count(max_made, -1)
        self._max_made = max_made
        self._admission = ClusterAdmission(is_alone=is_alone)
        self._found: dict[tuple[str, str], Any] = {}
        self._places: dict[tuple[str, str], str] = {}
        # Objects without uid, as plain data: their admission requires all other objects.
        self._new: dict[tuple[str, str], tuple[kinds.Kind, dict[str, Any]]] = {}
        # Pods and PodGroups of an API server without an explicit priority, with their class.
        self._classless: dict[tuple[str, str], tuple[str, bool]] = {}
        self._ephemeral: dict[tuple[str, str], Item] = {}
        self._uids: dict[str, str] = {}
        self._given: set[str] = set()
        self._newest = ""
        self._release: Release | None = None
        self._kubelets: set[str] = set()
        # With whether the object counts without a pod that has its label.
        self._origins: list[tuple[kinds.Kind, Item, bool]] = []
        self._taken: list[tuple[str, Any]] = []
        self._passed_over: dict[str, int] = {}
        self._workloads: dict[tuple[str, str, str], FoundWorkload] = {}
        self._notices: list[str] = []

    def read(
        self, items: Iterable[Item], *, are_given: bool = False, are_live: bool = False
    ) -> None:
        """Read objects; InputError states fault and location.

        `are_live`: an API server lists them, so the pods of derivable kinds are created there.
        """
        for item in items:
            self._read(item, is_given=are_given, is_live=are_live or item.is_live)

    def served_by(self, version: str, where: str = "") -> None:
        """Record the version of the objects' API server; the newest is used."""
        release = read_release(version, where=where)
        self._release = max(release, self._release or release)

    def _read(self, item: Item, *, is_given: bool, is_live: bool) -> None:
        if item.release:
            self.served_by(item.release, item.where)
        kind = kind_of(item)
        workload = self._makes_pods and is_workload(item)
        if kind in kinds.DERIVABLE:
            # Of use only for the groups of their pods, which have to be given.
            workload = workload and not is_live
            self._origins.append((kind, item, workload or is_live))
            kind = None
            if not workload:
                return
        if kind is None and not workload:
            self._pass_over(item)
            return
        try:
            if workload:
                self._keep(read_workload(item, is_given=is_given))
            if kind is not None:
                self._take(kind, item, is_given=is_given)
        except InputError as error:
            where = f"{item.where}: {error.where}" if error.where else item.where
            raise ObjectError(error.message, where=where) from error
        except msgspec.DecodeError as error:
            raise ObjectError(str(error), where=item.where) from error
        except UnicodeError as error:
            raise ObjectError("not UTF-8 text", where=item.where) from error
        except RecursionError:
            raise ObjectError("nested too deeply", where=item.where) from None

    def _take_origins(self) -> None:
        """Read workloads from which groups are derived; ObjectError for one without its pods."""
        labels = [obj.metadata.labels for (kind, _), obj in self._found.items() if kind == "Pod"]
        for kind, item, counts in self._origins:
            try:
                obj = decoded(kind, item.raw)
            except (msgspec.DecodeError, InputError):
                obj = None
            label = OWNER_LABELS.get(kind.kind, "")
            has_pods = obj is not None and any(
                one.get(label) == obj.metadata.name for one in labels
            )
            if not counts and not has_pods:
                self._pass_over(item)
            elif obj is not None:
                self._taken.append((kind.kind, obj))
        self._origins.clear()

    def _pass_over(self, item: Item) -> None:
        """Count an object without effect; ObjectError for an unknown kind."""
        name = item.head.kind or ""
        group = (item.head.api_version or "").rpartition("/")[0]
        if not has_no_bearing(group, name):
            text = (
                f"kind {name} of {item.head.api_version or 'no apiVersion'} is not one that "
                "Trellis reads, and its effect on pods is unknown: leave it out, or give its pods"
            )
            raise ObjectError(text, where=item.where)
        self._passed_over[name] = self._passed_over.get(name, 0) + 1

    def _keep(self, workload: FoundWorkload) -> None:
        """Store a workload; a given one replaces the cluster's, as with `kubectl apply`."""
        if workload.is_given and self._as_copies:
            workload = self._renamed(workload)
        known = self._workloads.get(workload.key)
        if known is not None and workload.is_given and not known.is_given:
            raw = {"status": known.raw.get("status") or {}, **workload.raw}
            if uid := known.meta.get("uid"):
                raw["metadata"] = {"uid": uid, **workload.meta}
            workload = replace(workload, raw=raw)
        elif known is not None and known.raw != workload.raw:
            text = f"there are two of that name, and they differ: the other is {known.where}"
            raise ObjectError(text, where=workload.title)
        self._workloads[workload.key] = workload

    def _renamed(self, workload: FoundWorkload) -> FoundWorkload:
        kind, namespace, name = workload.key
        name = free_name(name, lambda chosen: (kind, namespace, chosen) in self._workloads)
        return workload_copy(workload, name)

    def _make_pods(self) -> None:
        """Create the pods that workloads lack, and remove those that they delete."""
        pods: list[Pod] = []
        nodes: list[Node] = []
        for (kind, _), obj in self._found.items():
            if kind == "Pod" and not obj.is_finished and not obj.is_terminating:
                pods.append(obj)
            elif kind == "Node":
                nodes.append(obj)
        around = SnapshotSurroundings(
            OwnedPods(pods), tuple(nodes), self._workloads, self._admission.pod
        )
        for found in self._workloads.values():
            # A Job runs once: a given Job with the name of one in the cluster is another run.
            runs = found.is_given and found.kind == "Job" and not found.meta.get("uid")
            is_another = runs and bool(around.pods.of("Job", found.owner))
            workload = self._renamed(found) if is_another else found
            try:
                for raw in missing_objects(workload, around):
                    self._drop(around.removed)
                    self._make(raw, workload)
            except ObjectError as error:
                where = f"{workload.where}: {error.where or workload.title}"
                raise ObjectError(error.message, where=where) from error
        self._drop(around.removed)
        self._notices += around.notices

    def _drop(self, pods: list[Pod]) -> None:
        """Remove pods that their controller deletes; another pod may have the same name."""
        for pod in pods:
            self._found.pop(("Pod", pod.key), None)
            self._new.pop(("Pod", pod.key), None)
        pods.clear()

    def _make(self, raw: dict[str, Any], workload: FoundWorkload) -> None:
        """Add an object that a workload lacks, unless it was already created by hand."""
        if next(self._allowed) <= 0:
            raise ObjectError(f"workloads ask for more than {self._max_made} new objects")
        self._add(raw, workload.where, is_given=workload.is_given)

    def _add(self, raw: dict[str, Any], where: str, *, is_given: bool = False) -> None:
        item = Item(where, Head(raw["kind"], raw["apiVersion"]), raw)
        kind = kind_of(item)
        meta = raw["metadata"]
        # Kinds that are not read are not created either.
        if (
            kind is not None
            and (kind.kind, f"{meta['namespace']}/{meta['name']}") not in self._found
        ):
            self._take(kind, item, is_given=is_given)

    def _take(self, kind: kinds.Kind, item: Item, *, is_given: bool) -> None:
        obj = decoded(kind, item.raw)
        meta = obj.metadata
        key = (kind.kind, f"{meta.namespace}/{meta.name}" if kind.namespaced else meta.name)
        exists = is_given and key in self._found and key not in self._own
        if kind is kinds.POD and is_given and (self._as_copies or exists):
            if not exists or not _is_same(obj, self._found[key]):
                item, obj, key = self._copied(kind, item, obj, key)
                meta = obj.metadata
        elif exists and kind.kind not in KINDS:
            self._keep_known(kind, key, obj)
            return
        if is_given:
            self._own.add(key)
        is_new = meta.uid in ("", "/".join(key))
        try:
            if kind.kind == "Pod":
                obj = self._pod(obj, item, key, is_given=is_given)
            elif kind.kind == "Node":
                obj = _node(obj, item.raw)
                self._kubelets.add(kubelet_of(item.raw))
            elif kind in kinds.WORKLOAD_GROUPS and is_new and obj.spec.priority is None:
                # Since 1.37 the class also determines whether the group may evict other pods.
                name, has_policy = class_of(item.raw)
                self._classless[key] = name, has_policy or kind.version == "v1alpha2"
            elif kind.kind in DEFAULTED and is_new:
                plain = plain_of(item)
                plain["metadata"] |= {"namespace": meta.namespace, "uid": meta.uid}
                self._new[key] = kind, plain
            elif kind.kind in ADMISSION_KINDS:
                self._admission.add(kind.kind, plain_of(item))
        except ObjectError as error:
            raise ObjectError(error.message, where=" ".join(key)) from error
        self._once(key, obj, item.where, is_given=is_given)
        created = meta.creation_timestamp
        if created is not None and created > self._newest:
            self._newest = created

    def _copied(
        self, kind: kinds.Kind, item: Item, pod: Pod, key: tuple[str, str]
    ) -> tuple[Item, Pod, tuple[str, str]]:
        """Return a given pod as one more copy, under another name if its own is taken."""
        name, space = pod.metadata.name, pod.metadata.namespace
        if key in self._found and key not in self._own:
            name = free_name(name, lambda chosen: (kind.kind, f"{space}/{chosen}") in self._found)
        plain = pod_copy(plain_of(item), name)
        copied = Item(item.where, item.head, plain)
        return copied, decoded(kind, plain), (kind.kind, f"{space}/{name}")

    def _keep_known(self, kind: kinds.Kind, key: tuple[str, str], obj: Any) -> None:
        """Use the cluster's object instead of a given one of its name; a group is copied later."""
        if kind.kind in sources.BY_KIND and not self._as_copies:
            self._clashing.append(key)
        elif self._found[key] != obj and kind.kind != "Namespace" and not self._as_copies:
            self._notices.append(f"{kind.name} {key[1]} exists: the cluster's is used")

    def _pod(self, pod: Pod, item: Item, key: tuple[str, str], *, is_given: bool) -> Pod:
        meta = pod.metadata
        if not meta.uid:
            plain = plain_of(item)
            pod = replace(pod, metadata=replace(meta, uid=f"Pod/{key[1]}"))
            plain["metadata"] |= {"namespace": meta.namespace, "uid": pod.metadata.uid}
            self._new[key] = kinds.POD, plain
        elif pod.spec.priority is None:
            self._classless[key] = class_of(item.raw)
        uid = pod.metadata.uid
        if self._uids.setdefault(uid, key[1]) != key[1]:
            raise ObjectError(f'metadata.uid: "{uid}" is that of Pod {self._uids[uid]} already')
        if meta.uid:
            check_pod(pod)  # admission checks pods without a uid
        if is_given and not pod.spec.node_name:
            self._given.add(uid)
        if any(volume.ephemeral is not None for volume in pod.spec.volumes):
            self._ephemeral[key] = item
        # A pod may be the last object of a snapshot.
        started = pod.status.start_time
        if started is not None and started > self._newest:
            self._newest = started
        return pod

    def _once(self, key: tuple[str, str], obj: Any, where: str, *, is_given: bool) -> None:
        known = self._found.setdefault(key, obj)
        if known is obj:
            self._places[key] = where
        elif known != obj:
            if is_given and key[0] in KINDS:
                self._found[key] = obj
                return
            text = f"there are two of that name, and they differ: the other is {self._places[key]}"
            raise ObjectError(text, where=" ".join(key))

    def _admit(self) -> None:
        """Admit new objects, and those without a priority, as an API server does."""
        for key, (kind, plain) in self._new.items():
            with self._naming(key):
                if kind is kinds.POD:
                    self._found[key] = self._admission.pod(plain, is_strict=True)
                else:
                    self._found[key] = self._admission.other(kind, plain)
        self._new.clear()
        for key, (name, has_policy) in self._classless.items():
            with self._naming(key):
                self._found[key] = self._admission.prioritized(
                    self._found[key], name, has_policy=has_policy
                )
        self._classless.clear()

    @contextmanager
    def _naming(self, key: tuple[str, str]) -> Iterator[None]:
        """Add the object's name and location to an ObjectError."""
        try:
            yield
        except ObjectError as error:
            where = f"{self._places[key]}: {' '.join(key)}"
            raise ObjectError(error.message, where=where) from error

    def _make_claims(self) -> None:
        """Create the claims of ephemeral volumes.

        Set the default StorageClass in claims without one.
        """
        for key, item in self._ephemeral.items():
            pod = self._found.get(key)
            if pod is None or pod.spec.node_name or pod.is_terminating or pod.is_finished:
                continue
            plain = plain_of(item)
            plain["metadata"] |= {"namespace": pod.metadata.namespace, "uid": pod.metadata.uid}
            for claim in ephemeral_volume_claims(plain):
                self._add({"apiVersion": "v1", "kind": _CLAIM, **claim}, item.where)
        self._admit()
        for key, obj in self._found.items():
            if key[0] == _CLAIM:
                self._found[key] = self._admission.with_storage_class(obj)

    def snapshot(self) -> Snapshot:
        """Return the snapshot after admission, with the pods of workloads."""
        self._admit()
        if self._workloads:
            self._make_pods()
            self._admit()
        self._make_claims()
        self._take_origins()
        nodes: list[Node] = []
        objects: list[tuple[str, Any]] = []
        bound: list[Pod] = []
        unbound: list[Pod] = []
        ended: list[Pod] = []
        leaving: list[str] = []
        for (kind, name), obj in self._found.items():
            if kind == "Node":
                nodes.append(obj)
            elif kind != "Pod":
                if kind in kinds.BY_KIND:
                    objects.append((kind, obj))
            elif obj.is_finished:
                ended.append(obj)
            elif obj.spec.node_name:
                bound.append(obj)
            elif obj.is_terminating:
                leaving.append(name)
            else:
                unbound.append(obj)
        unbound.sort(key=lambda pod: pod.metadata.creation_timestamp or "~")
        objects, unbound = regrouped(objects, unbound, self._given, self._clashing)
        new = [pod for pod in unbound if pod.metadata.uid in self._given]
        skipped = notices(self._passed_over, leaving, astray(bound, nodes), self._admission.unknown)
        quotas = exceeded_quotas(self._admission.all(RESOURCE_QUOTA), new)
        ranges = violated_ranges(self._admission.all(LIMIT_RANGE), new)
        return Snapshot(
            nodes=tuple(nodes),
            objects=tuple(objects),
            bound=tuple(bound),
            unbound=tuple(unbound),
            ended=tuple(ended),
            given=frozenset(self._given),
            taken_at=_time(self._newest),
            places=self._places,
            notices=(*skipped, *self._notices, *quotas, *ranges),
            daemons=tuple(self._daemons()),
            release=self._release or _newest_release(self._kubelets),
            origins=tuple(self._taken),
        )

    def _daemons(self) -> Iterator[DaemonTemplate]:
        for workload in self._workloads.values():
            if workload.kind == "DaemonSet" and "template" in workload.spec:
                yield DaemonTemplate(workload, self._admission)


def _is_same(pod: Pod, known: Pod) -> bool:
    """Return whether a given pod is the known one, read once more."""
    uid = pod.metadata.uid or f"Pod/{pod.key}"
    return replace(pod, metadata=replace(pod.metadata, uid=uid)) == known


def _node(node: Node, raw: Any) -> Node:
    if not node.status.allocatable:
        capacity = capacity_of(raw)
        node = replace(node, status=replace(node.status, allocatable=capacity))
    check_node(node)
    return node


def _newest_release(kubelets: Iterable[str]) -> Release | None:
    """Return the newest release of kubelets: the API server is never older."""
    found: list[Release] = []
    for version in kubelets:
        try:
            found.append(read_release(version))
        except InputError:
            continue  # a kubelet may report any text
    return max(found, default=None)


def _time(text: str) -> float:
    time = parse_rfc3339(text)
    return NO_TIME if time is None else time
