"""Manifests from files into the store, as `kubectl apply -f` would send them.

`read` yields the objects of files, folders and streams with their locations, `apply` writes one
into the store through the server's own decoding and rules. Errors have file, line and object.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import yaml

from scheduler.base.errors import InputError
from scheduler.sandbox.api import writing
from scheduler.sandbox.api.request import ResourceRequest
from scheduler.sandbox.api.status import Object, StatusError
from scheduler.sandbox.kinds.kinds import Resource
from scheduler.sandbox.store.store import ObjectStore

MANAGER: Final = "trellis-sandbox"
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FIRST: Final = {"CustomResourceDefinition": 0, "Namespace": 1, "PriorityClass": 2}
_encode = msgspec.json.Encoder().encode


class Manifest(NamedTuple):
    """One object, and `file:line` where it begins."""

    obj: Object
    where: str


def read(names: Sequence[str]) -> Iterator[Manifest]:
    """Yield the objects of these files, folders (their manifests by name) and `-` (standard input),
    in order.
    """
    for name in names:
        if name == "-":
            yield from parse(sys.stdin.read(), "<stdin>")
            continue
        path = Path(name)
        files = [path]
        try:
            if path.is_dir():
                files = sorted(entry for entry in path.iterdir() if entry.suffix in _SUFFIXES)
                if not files:
                    raise InputError("no .yaml, .yml or .json file in it", where=name)
            for file in files:
                yield from parse(file.read_text(encoding="utf-8"), str(file))
        except OSError as fault:
            raise InputError(f"cannot be read: {fault.strerror}", where=name) from fault
        except UnicodeDecodeError as fault:
            raise InputError("not UTF-8 text", where=name) from fault


def parse(text: str, where: str) -> Iterator[Manifest]:
    """Yield the objects of one text: several documents, and lists taken apart."""
    loader = _LOADER(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            place = f"{where}:{node.start_mark.line + 1}"
            found = loader.construct_document(node)
            if found is not None:
                yield from _objects(found, place)
    except yaml.YAMLError as fault:
        mark = getattr(fault, "problem_mark", None)
        place = f"{where}:{mark.line + 1}:{mark.column + 1}" if mark else where
        raise InputError(getattr(fault, "problem", None) or str(fault), where=place) from fault
    finally:
        loader.dispose()


def in_order(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Return manifests ordered by dependency: files name their objects in any order."""
    return sorted(
        manifests, key=lambda manifest: _FIRST.get(str(manifest.obj.get("kind")), len(_FIRST))
    )


def apply(store: ObjectStore, manifest: Manifest) -> str:
    """Create the object, or change an existing one; return `kind/name created|configured`."""
    obj = manifest.obj
    resource = store.kinds.of_kind(str(obj.get("apiVersion", "")), str(obj.get("kind", "")))
    if resource is None:
        kind, version = obj.get("kind"), obj.get("apiVersion")
        raise InputError(
            f'no kind "{kind}" in version "{version}": is its CRD missing?', where=manifest.where
        )
    meta = obj.get("metadata") or {}
    namespace = str(meta.get("namespace") or "default") if resource.namespaced else ""
    name = str(meta.get("name") or "")
    try:
        word = _write(store, resource, namespace, name, _encode(obj))
    except StatusError as refusal:
        raise InputError(refusal.message, where=manifest.where) from refusal
    return f"{resource.singular}/{name or meta.get('generateName', '')} {word}"


def _write(store: ObjectStore, resource: Resource, namespace: str, name: str, body: bytes) -> str:
    if not name or store.find(resource, namespace, name) is None:
        call = ResourceRequest("POST", resource, namespace, "", "", {}, body=body)
        call.content_type = "application/json"
        writing.create(store, call)
        return "created"
    call = ResourceRequest(
        "PATCH", resource, namespace, name, "", {"fieldManager": MANAGER, "force": "true"}
    )
    call.content_type = writing.APPLY_PATCH
    call.body = body
    writing.patch(store, call)
    return "configured"


def _objects(found: Any, where: str) -> Iterator[Manifest]:
    if not isinstance(found, dict) or not isinstance(found.get("metadata", {}), dict | None):
        raise InputError("not a Kubernetes object", where=where)
    if not found.get("kind") or not found.get("apiVersion"):
        raise InputError("apiVersion and kind are missing", where=where)
    items = found.get("items")
    if str(found["kind"]).endswith("List") and isinstance(items, list):
        for item in items:
            yield from _objects(item, where)
        return
    yield Manifest(found, where)
