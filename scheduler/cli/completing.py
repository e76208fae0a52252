"""Shell completion of pods, groups, nodes and namespaces from the live cluster.

The shell waits for the answer: one list of at most 500 names, 2 s at most, nothing on any error.
"""

from collections.abc import Callable
from typing import Any

import msgspec

LIMIT = 500
TIMEOUT_S = 2.0
_GROUPS = "/apis/scheduling.k8s.io/v1alpha2/podgroups"


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Item(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


class _List(msgspec.Struct, frozen=True):
    items: list[_Item] = []


def complete_targets(ctx: Any, incomplete: str) -> list[str]:
    """Return the pods of the current namespace; after a type, the objects of that type."""
    from scheduler.snapshot.targets import GROUP, WORKLOADS, kind_called

    words, namespace = ctx.params.get("words") or [], ctx.params.get("namespace") or ""
    first, slash, rest = incomplete.partition("/")
    kind = kind_called(first) if slash else kind_called(words[0]) if words else ""
    lead, start = (f"{first}/", rest) if slash else ("", incomplete)
    if kind in WORKLOADS:
        one = WORKLOADS[kind]
        root = f"/apis/{one.group}/{one.version}" if one.group else f"/api/{one.version}"
        plural = one.plural
    elif kind == GROUP:
        root, plural = _GROUPS.rsplit("/", 1)
    else:
        root, plural = "/api/v1", "pods"
    return [f"{lead}{name}" for name in _names(root, plural, start, namespace)]


def complete_groups(ctx: Any, incomplete: str) -> list[str]:
    """Return the names of PodGroups."""
    root, plural = _GROUPS.rsplit("/", 1)
    return _names(root, plural, incomplete, ctx.params.get("namespace") or "")


def complete_namespaces(incomplete: str) -> list[str]:
    """Return the names of namespaces."""
    return _names("/api/v1", "namespaces", incomplete, None)


def complete_nodes(incomplete: str) -> list[str]:
    """Return the names of nodes."""
    return _names("/api/v1", "nodes", incomplete, None)


def complete_added_nodes(incomplete: str) -> list[str]:
    """Return the node names as completions of `N=`, once a number is typed."""
    number, equals, start = incomplete.partition("=")
    return [f"{number}={name}" for name in complete_nodes(start)] if equals else []


def _names(root: str, plural: str, start: str, namespace: str | None) -> list[str]:
    """Return names that begin with `start`; `namespace`: '' for the context's, None for none."""
    import asyncio
    from urllib.parse import quote

    from scheduler.cli.inputs.access import ClusterOptions
    from scheduler.cli.inputs.live import connect

    async def listed() -> list[str]:
        client = await connect(ClusterOptions(timeout_s=TIMEOUT_S))
        try:
            space = namespace or client.namespace or "default"
            within = "" if namespace is None else f"/namespaces/{quote(space, safe='')}"
            path = f"{root}{within}/{plural}?limit={LIMIT}"
            answer = await client.request("GET", path, timeout_s=TIMEOUT_S)
            items = msgspec.json.decode(answer.body, type=_List).items if answer.ok else []
            return [one.metadata.name for one in items if one.metadata.name.startswith(start)]
        finally:
            await client.close()

    work: Callable[[], Any] = listed
    try:
        return list(asyncio.run(work()))
    except Exception:  # noqa: BLE001 - an error text would land in the user's command line
        return []
