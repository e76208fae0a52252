"""Whole objects as the API server sent them, for extenders: the engine keeps only parts of objects.

Filled by the watches' decoders; deletion events remove entries. Kept only where extenders are
configured, and only what is sent to them: unbound pods; nodes, if one of them wants whole nodes;
all pods, if one of them wants whole victims.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from scheduler.engine.effects import Complete, Event, Listed, Watched
from scheduler.engine.intake import identity

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode

Keep = Callable[[bytes], None]


class RawObjects:
    """Pods by uid and nodes by name as JSON, without fields that extenders do not receive."""

    def __init__(self, *, nodes: bool, all_pods: bool) -> None:
        self._keeps_nodes = nodes
        self._keeps_all_pods = all_pods
        self._pods: dict[str, bytes] = {}
        self._nodes: dict[str, bytes] = {}

    def pod(self, uid: str) -> bytes | None:
        """Return a pod, or None if it is not stored."""
        return self._pods.get(uid)

    def node(self, name: str) -> bytes | None:
        """Return a node, or None if it is not stored."""
        return self._nodes.get(name)

    def keeper(self, kind: str) -> Keep | None:
        """Return the function that stores objects of a kind; None if the kind is not stored."""
        if kind == "Pod":
            return self._keep_pod
        return self._keep_node if kind == "Node" and self._keeps_nodes else None

    def note(self, event: Event) -> None:
        """Drop the object that an event reports as deleted."""
        if isinstance(event, Watched):
            if event.verb == "DELETED":
                self._of(event.kind).pop(identity(event.object), None)
        elif isinstance(event, Listed):
            self._only(event.kind, frozenset(map(identity, event.objects)))
        elif isinstance(event, Complete):
            self._only(event.kind, frozenset(event.keys))

    def _of(self, kind: str) -> dict[str, bytes]:
        return {"Pod": self._pods, "Node": self._nodes}.get(kind, {})

    def _only(self, kind: str, keys: frozenset[str]) -> None:
        kept = self._of(kind)
        for key in [key for key in kept if key not in keys]:
            del kept[key]

    def _keep_pod(self, raw: bytes) -> None:
        pod = _trimmed(raw)
        uid = pod["metadata"].get("uid", "")
        if pod.get("spec", {}).get("nodeName") and not self._keeps_all_pods:
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = _encode(pod)

    def _keep_node(self, raw: bytes) -> None:
        node = _trimmed(raw)
        self._nodes[node["metadata"].get("name", "")] = _encode(node)


def noting(raw_objects: RawObjects, emit: Callable[[Event], None]) -> Callable[[Event], None]:
    """Return a function that passes each event to `raw_objects` first, then to `emit`."""

    def reported(event: Event) -> None:
        raw_objects.note(event)
        emit(event)

    return reported


def _trimmed(raw: bytes) -> dict[str, Any]:
    """Return an object as kube-scheduler shows it: without its type and without managed fields."""
    found = _decode(raw)
    found.pop("kind", None)
    found.pop("apiVersion", None)
    meta = found.setdefault("metadata", {})
    meta.pop("managedFields", None)
    return found
