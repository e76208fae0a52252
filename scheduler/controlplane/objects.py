"""Common helpers: the type of a plain object, its labels, and references to a controller."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeAlias

from scheduler.base.errors import ObjectError

Object: TypeAlias = dict[str, Any]


class AdmissionError(ObjectError):
    """The rejection of a pod or claim by an admission plugin.

    The API server answers 403 Forbidden.
    """


class AdmissionObjects(Protocol):
    """The objects that admission reads, by kind."""

    def find(self, kind: str, name: str, /) -> Object | None:
        """Return the cluster-scoped object of that name, or None."""

    def all(self, kind: str, namespace: str = "", /) -> Iterable[Object]:
        """Return the objects of a kind, those of one namespace if it is given."""


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of an object or of a pod template."""
    return (obj.get("metadata") or {}).get("labels") or {}


def name_of(obj: Object) -> str:
    """Return the name of an object, or its generateName."""
    meta = obj["metadata"]
    return str(meta.get("name") or meta.get("generateName") or "")


def containers(spec: Object) -> Iterator[Object]:
    """Yield the init containers of a pod spec, then its containers."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def controller_of(obj: Object) -> Object | None:
    """Return the owner reference of an object's controller, or None."""
    owners: Iterable[Object] = obj["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def controller_reference(api_version: str, kind: str, owner: Object) -> Object:
    """Return the owner reference that makes `owner` the controller of an object."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def derived_uid(key: str) -> str:
    """Return a uid in the API server's format, always the same for the same key."""
    digest = hashlib.sha256(key.encode()).hexdigest()
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32]))
