"""Items of a snapshot → their kind and their struct; and the items that are workloads.

Strict where silence would mislead: ObjectError for unreadable objects.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from scheduler.base.errors import ObjectError
from scheduler.objects import kinds
from scheduler.objects.plain import plain_data, read_as
from scheduler.snapshot import admission
from scheduler.snapshot.documents import Item
from scheduler.snapshot.workloads.found import FoundWorkload
from scheduler.snapshot.workloads.table import KINDS

# The kinds in a snapshot of a cluster.
READ: Final = (*kinds.WATCHED, *kinds.FED, *admission.KINDS, kinds.MOVE_PLAN)


@cache
def _decoder(kind: kinds.Kind) -> msgspec.json.Decoder[Any]:
    """Return the decoder of a kind.

    Creating all of them at once would delay the daemon's start by 4 ms.
    """
    return msgspec.json.Decoder(kind.struct)


class _Labels(msgspec.Struct, frozen=True):
    # A label without a value is sometimes written as null; the API server reads it as "".
    labels: dict[str, Any] = {}


class _Labelled(msgspec.Struct, frozen=True):
    metadata: _Labels = _Labels()


_labelled: Final = msgspec.json.Decoder(_Labelled)


def kind_of(item: Item) -> kinds.Kind | None:
    """Return the kind of an object; None for kinds that Trellis does not read."""
    name = item.head.kind
    if not name:
        raise ObjectError("kind is missing", where=item.where)
    if name == "ConfigMap":
        return _config_map_kind(item)
    group, _, version = (item.head.api_version or "").rpartition("/")
    kind = kinds.BY_KIND.get(name) or admission.BY_KIND.get(name)
    if (group, name) in kinds.BY_VERSION:
        return kinds.BY_VERSION[group, name].get(version)
    # An object without a version is accepted; another API group is another kind.
    if kind is not None and item.head.api_version is not None and group != kind.group:
        return None
    return kind


def plain_of(item: Item) -> dict[str, Any]:
    """Return a copy of an item as plain data, without nulls."""
    found: dict[str, Any]
    if isinstance(item.raw, bytes):
        found = msgspec.json.decode(item.raw)
        # JSON has no times. The copy of a pod takes longer than its decoding.
        return plain_data(found) if b"null" in item.raw else found
    found = plain_data(item.raw)
    return found


def is_workload(item: Item) -> bool:
    """Return whether an item is a workload that makes pods."""
    group = (item.head.api_version or "").rpartition("/")[0]
    name = item.head.kind or ""
    return name in KINDS and (item.head.api_version is None or KINDS[name] == group)


def read_workload(item: Item, *, is_given: bool) -> FoundWorkload:
    """Read a workload as plain data; ObjectError when it has no name."""
    workload = FoundWorkload(item.where, item.head.kind or "", plain_of(item), is_given)
    workload.key  # noqa: B018 - raises without a name, which all messages need
    return workload


def _config_map_kind(item: Item) -> kinds.Kind | None:
    """Return the kind of a ConfigMap for the scheduler, by its label; None for any other."""
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


def decoded(kind: kinds.Kind, raw: Any) -> Any:
    """Return a decoded object; if the struct rejects it, decode it again without nulls."""
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
    # A pod without a uid stays so for now: it marks objects without defaults.
    uid = meta.uid or ("" if kind is kinds.POD else f"{kind.kind}/{namespace}/{meta.name}")
    if namespace == meta.namespace and uid == meta.uid:
        return obj
    return replace(obj, metadata=replace(meta, namespace=namespace, uid=uid))


def _slowly(kind: kinds.Kind, raw: Any) -> Any:
    """Return an object decoded without its nulls; a pod without a uid stays without."""
    obj = read_as(kind, raw)
    meta = raw.get("metadata")
    if kind is not kinds.POD or (isinstance(meta, Mapping) and meta.get("uid")):
        return obj
    return replace(obj, metadata=replace(obj.metadata, uid=""))
