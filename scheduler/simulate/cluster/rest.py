"""Plugins' requests to the API server, answered from memory; and the volume controller behind it.

Finds the kinds of `objects.kinds` by their URLs. A request's changes, and the controllers'
reactions, are returned as events for the engine. Called by `SimulatedCluster`.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from scheduler.engine.effects import Answer, Call, Watched
from scheduler.objects.claims import ResourceClaim
from scheduler.objects.kinds import WATCHED, Kind
from scheduler.simulate.cluster.deviceclaims import refusal, reported
from scheduler.simulate.cluster.volumes import VolumeController, touched
from scheduler.state.cluster import Cluster

STRATEGIC = "application/strategic-merge-patch+json"
MERGE_TYPES = ("application/merge-patch+json", STRATEGIC)
JSON_PATCH = "application/json-patch+json"

_SERVED: Final[dict[tuple[str, str], list[Kind]]] = {}
for _kind in WATCHED:
    _SERVED.setdefault((_kind.group, _kind.plural), []).append(_kind)


class Rest:
    """Answer `Call` effects; reads objects from the engine's own store."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._volumes = VolumeController(cluster)

    def call(self, call: Call) -> tuple[Answer, list[Watched]]:
        """Return the answer to a request and its changes, in order."""
        found = self._named(call.path)
        if found is None:
            return Answer(call.id, 404, "NotFound", f"nothing is served at {call.path}"), []
        kind, key = found
        old = self._cluster.store.of(kind.kind).get(key)
        if call.method == "POST":
            return self._create(call, kind, key)
        if old is None:
            return Answer(call.id, 404, "NotFound", f'{kind.plural} "{key}" not found'), []
        if call.method == "GET":
            return Answer(call.id, 200, body=_plain(kind, old)), []
        if call.method == "DELETE":
            return Answer(call.id, 200), [Watched(kind.kind, "DELETED", old)]
        try:
            new = _changed(call, _plain(kind, old))
            obj = msgspec.convert(new, kind.struct)
            version = old.metadata.resource_version
            if obj.metadata.resource_version not in ("", version):
                text = (
                    "the object has been modified; please apply your changes to the latest version"
                )
                return Answer(call.id, 409, "Conflict", text), []
            text = refusal(obj) if isinstance(obj, ResourceClaim) else ""
            if text:
                return Answer(call.id, 422, "Invalid", text), []
            if obj != old:
                obj = touched(obj, version)
        except (LookupError, TypeError, ValueError) as error:
            return Answer(call.id, 422, "Invalid", str(error)), []
        return self._written(call, kind, obj, "MODIFIED" if obj != old else "")

    def overdue(self) -> list[Watched]:
        """Return the controllers' pending changes for the objects of the snapshot."""
        return self._volumes.overdue()

    def _create(self, call: Call, kind: Kind, key: str) -> tuple[Answer, list[Watched]]:
        body = _body(call)
        meta = body.setdefault("metadata", {})
        namespace = key if kind.namespaced else ""
        name = str(meta.get("name", ""))
        if namespace:
            meta["namespace"] = namespace
        full = f"{namespace}/{name}" if namespace else name
        if full in self._cluster.store.of(kind.kind):
            return Answer(call.id, 409, "AlreadyExists", f'{kind.plural} "{full}" exists'), []
        try:
            obj = msgspec.convert(body, kind.struct)
        except msgspec.ValidationError as error:
            return Answer(call.id, 422, "Invalid", str(error)), []
        return self._written(call, kind, touched(obj, ""), "ADDED")

    def _written(self, call: Call, kind: Kind, obj: Any, verb: str) -> tuple[Answer, list[Watched]]:
        events = [Watched(kind.kind, verb, obj)] if verb else []
        events += self._volumes.after(kind.kind, obj)
        report = reported(obj) if isinstance(obj, ResourceClaim) else None
        if report is not None:
            events.append(report)
        return Answer(call.id, 200, body=_plain(kind, obj)), events

    def _named(self, path: str) -> tuple[Kind, str] | None:
        """Return the kind of a path, and the key of the object (a collection's namespace)."""
        parts = path.partition("?")[0].strip("/").split("/")
        if parts[:1] == ["api"] and len(parts) >= 3:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[:1] == ["apis"] and len(parts) >= 4:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return None
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        kinds = [one for one in _SERVED.get((group, rest[0]), ()) if one.version == version]
        if not kinds or kinds[0].kind in ("Pod", "Node"):
            return None
        name = rest[1] if len(rest) > 1 else ""
        key = "/".join(part for part in (namespace, name) if part)
        # ConfigMaps are named by their content; the other kinds have one path each.
        return next(
            (one for one in kinds if key in self._cluster.store.of(one.kind)), kinds[0]
        ), key


def _plain(kind: Kind, obj: Any) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(obj)
    return {"apiVersion": kind.api_version, "kind": kind.name, **plain}


def _body(call: Call) -> Any:
    """Return a copy of the body as plain data, whatever its type."""
    body = call.body
    if isinstance(body, str | bytes | bytearray):
        return msgspec.json.decode(body)
    return json.loads(msgspec.json.encode(body))


def _changed(call: Call, old: dict[str, Any]) -> Any:
    """Return the object after a PUT or PATCH."""
    body = _body(call)
    if call.method == "PUT":
        return body
    if call.content_type == JSON_PATCH:
        return _patched(old, body)
    if call.content_type in MERGE_TYPES:
        return _merged(old, body, by_type=call.content_type == STRATEGIC)
    raise ValueError(f"content type {call.content_type} is none of a patch")


def _merged(old: Any, patch: Any, *, by_type: bool, field: str = "") -> Any:
    """Return `old` with a merge patch applied; null removes a field.

    `by_type` merges conditions by their type, as a strategic patch does, and removes entries by uid
    with its directive; other lists are replaced.
    """
    if by_type and isinstance(patch, list) and patch and all("$patch" in one for one in patch):
        gone = {one["uid"] for one in patch}
        return [one for one in old or () if one.get("uid") not in gone]
    if by_type and field == "conditions" and isinstance(patch, list):
        known = {one["type"]: one for one in old or ()}
        known |= {one["type"]: _merged(known.get(one["type"]), one, by_type=True) for one in patch}
        return list(known.values())
    if not isinstance(patch, dict):
        return patch
    merged = dict(old) if isinstance(old, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), value, by_type=by_type, field=key)
    return merged


def _patched(old: dict[str, Any], steps: Any) -> Any:
    """Return an object with the steps of a JSON patch applied, all or none."""
    import jsonpatch  # a twentieth of this module's import, and few simulations need it
    from jsonpointer import JsonPointerException

    try:
        return jsonpatch.apply_patch(old, steps)
    except (jsonpatch.JsonPatchException, JsonPointerException) as error:
        raise ValueError(str(error)) from error
