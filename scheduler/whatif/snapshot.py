"""Objects as found → `Snapshot`: the structs of a cluster, sorted by what becomes of them.

Strict where silence would mislead: an object of a kind that Trellis reads must be readable, whole and
there once; InputError names it, its place and the field. Workloads become their pods. A kind of which
nobody knows that it cannot matter is refused. Called by the command line and by `batch`; knows nothing
of profiles.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import count
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from scheduler.base.clock import parse_rfc3339
from scheduler.base.errors import InputError, ObjectError
from scheduler.objects import kinds
from scheduler.objects.node import Node
from scheduler.objects.plain import plain_data, read_as
from scheduler.objects.pod import Pod
from scheduler.whatif import admission
from scheduler.whatif.admission import PRIORITY_CLASS_GROUP, PriorityClass
from scheduler.whatif.checks import check_node, check_pod
from scheduler.whatif.documents import Head, Item
from scheduler.whatif.notices import astray, has_no_bearing, notices
from scheduler.whatif.spelling import check_spelling
from scheduler.whatif.workloads import (
    KINDS,
    MAX_PODS,
    FoundWorkload,
    SnapshotSurroundings,
    missing_objects,
)

# The moment of a snapshot that tells no time (2026-01-01T00:00:00Z).
NO_TIME: Final = 1767225600.0

PRIORITY_CLASS: Final = kinds.Kind(
    "PriorityClass", PRIORITY_CLASS_GROUP, "v1", "priorityclasses", PriorityClass, namespaced=False
)
READ: Final = (*kinds.WATCHED, *kinds.FED, PRIORITY_CLASS)


@cache
def _decoder(kind: kinds.Kind) -> msgspec.json.Decoder[Any]:
    """Make it when the first object of a kind comes: all together take the daemon's start four milliseconds."""
    return msgspec.json.Decoder(kind.struct)


class _Labels(msgspec.Struct, frozen=True):
    # A label without a value is written as null now and then; the API server takes it for "".
    labels: dict[str, Any] = {}


class _Labelled(msgspec.Struct, frozen=True):
    metadata: _Labels = _Labels()


_labelled: Final = msgspec.json.Decoder(_Labelled)


class Snapshot(msgspec.Struct, frozen=True):
    """A cluster at rest.

    `objects` are (kind, struct) of everything but nodes and pods; `bound` pods sit on a node, known
    or not; `unbound` ones do not and are not on their way out, oldest first; nothing is decided about
    the `ended` ones. `given` are the uids of unbound pods that were named apart from the cluster, to be
    placed whatever their schedulerName.
    `taken_at` is the newest time that an object mentions, in seconds since the epoch.
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

    def find(self, key: str) -> Pod | None:
        """Return the pod of that `namespace/name` that is bound or waits to be, or None."""
        return next((pod for pod in (*self.bound, *self.unbound) if pod.key == key), None)

    def place(self, kind: str, key: str) -> str:
        """Return what to call an object in an error: where it was found, its kind and its name."""
        where = self.places.get((kind, key), "")
        return f"{where}: {kind} {key}" if where else f"{kind} {key}"


def read_snapshot(items: Iterable[Item], given: Iterable[Item] = ()) -> Snapshot:
    """Read a cluster, and the objects `given` apart from it; InputError says what is wrong where."""
    reader = SnapshotReader()
    reader.read(items)
    reader.read(given, are_given=True)
    return reader.snapshot()


class SnapshotReader:
    """Takes objects as they come, in as many parts as there are; workloads make `max_made` at most."""

    def __init__(self, max_made: int = MAX_PODS) -> None:
        self._max_made = max_made
        self._found: dict[tuple[str, str], Any] = {}
        self._places: dict[tuple[str, str], str] = {}
        self._classes = {one.metadata.name: one for one in admission.SYSTEM_CLASSES}
        # Pods and PodGroups whose priority is not written out, with their class.
        self._classless: dict[tuple[str, str], tuple[str, bool]] = {}
        self._uids: dict[str, str] = {}
        self._given: set[str] = set()
        self._newest = ""
        self._passed_over: dict[str, int] = {}
        self._workloads: list[FoundWorkload] = []

    def read(self, items: Iterable[Item], *, are_given: bool = False) -> None:
        """Read objects; InputError says what is wrong where."""
        for item in items:
            self._read(item, is_given=are_given)

    def _read(self, item: Item, *, is_given: bool) -> None:
        kind = kind_of(item)
        workload = _is_workload(item)
        if kind is None and not workload:
            self._pass_over(item)
            return
        try:
            if workload:
                self._workloads.append(_workload(item, is_given=is_given))
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

    def _pass_over(self, item: Item) -> None:
        """Count an object that cannot matter; ObjectError for one of which that is not known."""
        name = item.head.kind or ""
        group = (item.head.api_version or "").rpartition("/")[0]
        if not has_no_bearing(group, name):
            text = (
                f"kind {name} of {item.head.api_version or 'no apiVersion'} is not one that Trellis "
                "reads, and what it means for pods is not known: leave it out, or give the pods it makes"
            )
            raise ObjectError(text, where=item.where)
        self._passed_over[name] = self._passed_over.get(name, 0) + 1

    def _make_pods(self) -> None:
        """Give every workload the pods that it still lacks."""
        pods: dict[str, list[Pod]] = {}
        nodes = []
        for (kind, _), obj in self._found.items():
            if kind == "Pod" and not obj.is_finished and not obj.is_terminating:
                pods.setdefault(obj.metadata.namespace, []).append(obj)
            elif kind == "Node":
                nodes.append(obj)
        around = SnapshotSurroundings(
            pods, tuple(nodes), frozenset(one.key for one in self._workloads)
        )
        allowed = count(self._max_made, -1)
        for workload in self._workloads:
            try:
                for raw in missing_objects(workload, around):
                    self._make(raw, workload, next(allowed))
            except ObjectError as error:
                named = f"{workload.kind} {workload.namespace}/{workload.name}"
                where = f"{workload.where}: {error.where or named}"
                raise ObjectError(error.message, where=where) from error
        self._workloads.clear()

    def _make(self, raw: dict[str, Any], workload: FoundWorkload, allowed: int) -> None:
        """Take in what a workload lacks; it may be there already, made by hand."""
        if allowed <= 0:
            raise ObjectError(f"workloads ask for more than {self._max_made} new objects")
        head = Head(raw["kind"], raw["apiVersion"])
        kind = kind_of(Item(workload.where, head, raw))
        meta = raw["metadata"]
        # Nothing is made of a kind that is not read.
        if kind is None or (kind.kind, f"{meta['namespace']}/{meta['name']}") in self._found:
            return
        self._take(kind, Item(workload.where, head, raw), is_given=workload.is_given)

    def _take(self, kind: kinds.Kind, item: Item, *, is_given: bool) -> None:
        obj = _decoded(kind, item.raw)
        meta = obj.metadata
        key = (kind.kind, f"{meta.namespace}/{meta.name}" if kind.namespaced else meta.name)
        try:
            if kind.kind == "Pod":
                obj = self._pod(obj, item.raw, key, is_given=is_given)
            elif kind.kind == "Node":
                obj = _node(obj, item.raw)
            elif (
                kind in kinds.WORKLOAD_GROUPS
                and meta.uid == "/".join(key)
                and obj.spec.priority is None
            ):
                # No API server has given it a uid, so none has looked for its class either. Since 1.37 that says
                # as well whether the group may evict others.
                name, has_policy = admission.class_of(item.raw)
                self._classless[key] = name, has_policy or kind.version == "v1alpha2"
            elif kind is PRIORITY_CLASS:
                self._classes[meta.name] = obj
        except ObjectError as error:
            raise ObjectError(error.message, where=" ".join(key)) from error
        self._once(key, obj, item.where)
        created = meta.creation_timestamp
        if created is not None and created > self._newest:
            self._newest = created

    def _pod(self, pod: Pod, raw: Any, key: tuple[str, str], *, is_given: bool) -> Pod:
        meta = pod.metadata
        if not meta.uid:
            check_spelling(msgspec.json.decode(raw) if isinstance(raw, bytes) else raw)
            pod = admission.with_defaults(pod)
            pod = replace(pod, metadata=replace(meta, uid=f"Pod/{key[1]}"))
        uid = pod.metadata.uid
        if self._uids.setdefault(uid, key[1]) != key[1]:
            raise ObjectError(f'metadata.uid: "{uid}" is that of Pod {self._uids[uid]} already')
        check_pod(pod)
        if pod.spec.priority is None:
            self._classless[key] = admission.class_of(raw)
        if is_given and not pod.spec.node_name:
            self._given.add(uid)
        # A pod that counts may be the last thing a snapshot tells of.
        started = pod.status.start_time
        if started is not None and started > self._newest:
            self._newest = started
        return pod

    def _once(self, key: tuple[str, str], obj: Any, where: str) -> None:
        known = self._found.setdefault(key, obj)
        if known is obj:
            self._places[key] = where
        elif known != obj:
            text = f"there are two of that name, and they differ: the other is {self._places[key]}"
            raise ObjectError(text, where=" ".join(key))

    def snapshot(self) -> Snapshot:
        """Return what was read, with the pods of workloads, priorities filled in."""
        if self._workloads:
            self._make_pods()
        for key, (name, has_policy) in self._classless.items():
            try:
                self._found[key] = admission.with_priority(
                    self._found[key], name, self._classes, has_policy=has_policy
                )
            except ObjectError as error:
                where = f"{self._places[key]}: {' '.join(key)}"
                raise ObjectError(error.message, where=where) from error
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
        return Snapshot(
            nodes=tuple(nodes),
            objects=tuple(objects),
            bound=tuple(bound),
            unbound=tuple(unbound),
            ended=tuple(ended),
            given=frozenset(self._given),
            taken_at=_time(self._newest),
            places=self._places,
            notices=notices(self._passed_over, leaving, astray(bound, nodes)),
        )


def kind_of(item: Item) -> kinds.Kind | None:
    """Return how to read an object; None for what Trellis does not read."""
    name = item.head.kind
    if not name:
        raise ObjectError("kind is missing", where=item.where)
    if name == "ConfigMap":
        return _config_map_kind(item)
    group, _, version = (item.head.api_version or "").rpartition("/")
    kind = kinds.BY_KIND.get(name)
    if (group, name) in kinds.BY_VERSION:
        return kinds.BY_VERSION[group, name].get(version)
    if kind is None and name == PRIORITY_CLASS.kind:
        kind = PRIORITY_CLASS
    # An object that names no version is taken at its word; one of another group is another kind.
    if kind is not None and item.head.api_version is not None and group != kind.group:
        return None
    return kind


def _is_workload(item: Item) -> bool:
    group = (item.head.api_version or "").rpartition("/")[0]
    name = item.head.kind or ""
    return name in KINDS and (item.head.api_version is None or KINDS[name] == group)


def _workload(item: Item, *, is_given: bool) -> FoundWorkload:
    """Read a workload as plain data; ObjectError when it has no name."""
    raw = msgspec.json.decode(item.raw) if isinstance(item.raw, bytes) else item.raw
    workload = FoundWorkload(item.where, item.head.kind or "", plain_data(raw), is_given)
    workload.key  # noqa: B018 - a name is what everything else is told by
    return workload


def _config_map_kind(item: Item) -> kinds.Kind | None:
    """Return what a ConfigMap says to the scheduler, by its label; None for any other."""
    try:
        if isinstance(item.raw, bytes):
            labels = _labelled.decode(item.raw).metadata.labels
        else:
            labels = msgspec.convert(item.raw, _Labelled).metadata.labels
    except msgspec.ValidationError:
        return None
    chosen = (
        kind
        for kind in (kinds.GROUP_CONFIG_MAP, kinds.TOPOLOGY_CONFIG_MAP)
        if kind.label_selector in labels
    )
    return next(chosen, None)


def _decoded(kind: kinds.Kind, raw: Any) -> Any:
    """Read an object; what the struct does not take as it is may do so without its nulls."""
    if isinstance(raw, bytes):
        try:
            obj = _decoder(kind).decode(raw)
        except msgspec.ValidationError:
            obj = _slowly(kind, msgspec.json.decode(raw))
    else:
        try:
            obj = msgspec.convert(raw, kind.struct)
        except msgspec.ValidationError:
            obj = _slowly(kind, raw)
    meta = obj.metadata
    if not meta.name:
        raise ObjectError("metadata.name is missing", where=kind.kind)
    namespace = (meta.namespace or "default") if kind.namespaced else ""
    # A pod keeps its lack of a uid for now: it tells that nothing was filled in.
    uid = meta.uid or ("" if kind is kinds.POD else f"{kind.kind}/{namespace}/{meta.name}")
    if namespace == meta.namespace and uid == meta.uid:
        return obj
    return replace(obj, metadata=replace(meta, namespace=namespace, uid=uid))


def _slowly(kind: kinds.Kind, raw: Any) -> Any:
    """Read what needs its nulls taken out; a pod without a uid stays without."""
    obj = read_as(kind, raw)
    meta = raw.get("metadata")
    if kind is not kinds.POD or (isinstance(meta, Mapping) and meta.get("uid")):
        return obj
    return replace(obj, metadata=replace(obj.metadata, uid=""))


def _node(node: Node, raw: Any) -> Node:
    if not node.status.allocatable:
        capacity = admission.capacity_of(raw)
        node = replace(node, status=replace(node.status, allocatable=capacity))
    check_node(node)
    return node


def _time(text: str) -> float:
    time = parse_rfc3339(text)
    return NO_TIME if time is None else time
