"""/version, /api, /apis and below: the served resources, in classic and aggregated format.

Computed from the kinds table and cached until a CRD changes it. The server calls `Discovery.answer`
for every path that may be discovery; None means any other path.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

import msgspec

from scheduler.sandbox.api.status import Object
from scheduler.sandbox.kinds.kinds import Kinds, Resource

_AGGREGATED: Final = "apidiscovery.k8s.io"
_encode = msgspec.json.Encoder().encode
_UPDATES: Final = ("get", "patch", "update")
_SUBRESOURCES: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "binding": ("", "v1/Binding", ("create",)),
    "ephemeralcontainers": ("", "v1/Pod", _UPDATES),
    "eviction": ("policy", "v1/Eviction", ("create",)),
    "finalize": ("", "v1/Namespace", ("update",)),
    "log": ("", "v1/Pod", ("get",)),
    "resize": ("", "v1/Pod", _UPDATES),
    "scale": ("autoscaling", "v1/Scale", _UPDATES),
    "token": ("authentication.k8s.io", "v1/TokenRequest", ("create",)),
}


def version(release: str) -> Object:
    """Return the content of /version for a release such as 1.36."""
    major, _, minor = release.partition(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{release}.0+trellis-sandbox",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "linux/amd64",
    }


class Discovery:
    """The discovery documents of one kinds table."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._generation = -1
        self._made: dict[str, bytes] = {}

    def answer(self, path: str, accept: str) -> tuple[bytes, str] | None:
        """Return body and content type of a discovery path, None for any other path."""
        parts = [part for part in path.split("/") if part]
        if not parts or parts[0] not in ("api", "apis") or len(parts) > 3:
            return None
        if (parts[0] == "api" and len(parts) > 2) or not self._is_served(parts):
            return None
        version = _aggregated_version(accept) if len(parts) == 1 else ""
        key = f"{path}#{version}"
        if self._generation != self._kinds.generation:
            self._made.clear()
            self._generation = self._kinds.generation
        body = self._made.get(key)
        if body is None:
            body = self._made[key] = _encode(self._document(parts, version))
        media = "application/json"
        if version:
            media += f";g={_AGGREGATED};v={version};as=APIGroupDiscoveryList"
        return body, media

    def _is_served(self, parts: Sequence[str]) -> bool:
        if len(parts) == 1:
            return True
        rows = list(self._kinds)
        if parts[0] == "api":
            return parts[1] == "v1"
        if len(parts) == 2:
            return any(row.group == parts[1] for row in rows)
        return any(row.group == parts[1] and row.version == parts[2] for row in rows)

    def _document(self, parts: Sequence[str], aggregated: str) -> Object:
        rows = list(self._kinds)
        if aggregated:
            core = parts[0] == "api"
            return _aggregate([row for row in rows if (row.group == "") is core], aggregated)
        if parts == ["api"]:
            return {
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [],
            }
        if parts == ["apis"]:
            groups = [_group(name, found) for name, found in _by_group(rows) if name]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        if len(parts) == 2 and parts[0] == "apis":
            found = [row for row in rows if row.group == parts[1]]
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(parts[1], found)}
        group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
        found = [row for row in rows if row.group == group and row.version == version]
        return {
            "kind": "APIResourceList",
            **({"apiVersion": "v1"} if group else {}),
            "groupVersion": found[0].api_version,
            "resources": [entry for row in found for entry in _entries(row)],
        }


def _by_group(rows: Iterable[Resource]) -> list[tuple[str, list[Resource]]]:
    ordered = sorted(rows, key=lambda row: row.group)
    return [(name, list(found)) for name, found in groupby(ordered, key=lambda row: row.group)]


def _versions(rows: Iterable[Resource]) -> list[str]:
    return list(dict.fromkeys(row.version for row in rows))


def _group(name: str, rows: list[Resource]) -> Object:
    versions = [
        {"groupVersion": f"{name}/{version}", "version": version} for version in _versions(rows)
    ]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _entries(row: Resource) -> list[Object]:
    entry: Object = {
        "name": row.plural,
        "singularName": row.singular,
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        entry["shortNames"] = list(row.short_names)
    if row.categories:
        entry["categories"] = list(row.categories)
    entries = [entry]
    for name in row.subresources:
        group, version, kind, verbs = _subresource(row, name)
        below: Object = {
            "name": f"{row.plural}/{name}",
            "singularName": "",
            "namespaced": row.namespaced,
            "kind": kind,
            "verbs": list(verbs),
        }
        if (group, version) != (row.group, row.version):
            below["group"], below["version"] = group, version
        entries.append(below)
    return entries


def _subresource(row: Resource, name: str) -> tuple[str, str, str, tuple[str, ...]]:
    found = _SUBRESOURCES.get(name)
    if found is None:
        return row.group, row.version, row.kind, _UPDATES
    group, version_kind, verbs = found
    version, _, kind = version_kind.partition("/")
    return group, version, kind, verbs


def _aggregated_version(accept: str) -> str:
    if f"g={_AGGREGATED}" not in accept.replace(" ", ""):
        return ""
    for choice in accept.split(","):
        parts = {part.strip() for part in choice.split(";")}
        if f"g={_AGGREGATED}" in parts and "application/json" in parts:
            for version in ("v2", "v2beta1"):
                if f"v={version}" in parts:
                    return version
    return ""


def _aggregate(rows: list[Resource], version: str) -> Object:
    items = []
    for name, found in _by_group(rows):
        versions = [
            {
                "version": each,
                "resources": [_discovered(row) for row in found if row.version == each],
                "freshness": "Current",
            }
            for each in _versions(found)
        ]
        meta: Object = {"name": name} if name else {}
        items.append({"metadata": meta, "versions": versions})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"{_AGGREGATED}/{version}",
        "metadata": {},
        "items": items,
    }


def _discovered(row: Resource) -> Object:
    entry: Object = {
        "resource": row.plural,
        "responseKind": {"group": row.group, "version": row.version, "kind": row.kind},
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "singularResource": row.singular,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        entry["shortNames"] = list(row.short_names)
    if row.categories:
        entry["categories"] = list(row.categories)
    below = []
    for name in row.subresources:
        group, version, kind, verbs = _subresource(row, name)
        below.append(
            {
                "subresource": name,
                "responseKind": {"group": group, "version": version, "kind": kind},
                "verbs": list(verbs),
            }
        )
    if below:
        entry["subresources"] = below
    return entry
