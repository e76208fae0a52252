"""`Rights`: which of the daemon's objects a user of the page may see, as the API server decides.

One SubjectAccessReview per kind covers all namespaces; where it is denied, one review per namespace
that has such objects follows, up to `MOST_REVIEWS`. `within` reduces a cluster to the permitted
objects before anything is computed from it, so that sums, plans and texts cannot reveal others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.objects.kinds import BY_KIND, NODE, POD, WATCHED, Kind
from scheduler.snapshot.snapshot import Snapshot

MOST_REVIEWS = 500
AT_A_TIME = 8

# Says whether the user may do what a SubjectAccessReview of these resource attributes asks.
May = Callable[[Mapping[str, str]], Awaitable[bool]]


class Rights(msgspec.Struct, frozen=True):
    """The kinds that a user may list: `everywhere` in all namespaces, `namespaces` only in some.

    `notices` state what the user may not list.
    """

    everywhere: frozenset[str] = frozenset()
    namespaces: tuple[tuple[str, frozenset[str]], ...] = ()
    notices: tuple[str, ...] = ()


async def rights(may: May, namespaces: Mapping[str, Iterable[str]], namespace: str = "") -> Rights:
    """Return a user's rights to list kinds; `namespaces` has the namespaces of each kind's objects.

    If a kind may not be listed in all namespaces, only `namespace` is checked for it, if given.
    """
    limit = asyncio.Semaphore(AT_A_TIME)

    async def is_allowed(kind: Kind, where: str) -> bool:
        attributes = {"verb": "list", "group": kind.group, "resource": kind.plural}
        async with limit:
            return await may({**attributes, "namespace": where} if where else attributes)

    kinds = {name: BY_KIND[name] for name in (NODE.kind, POD.kind, *namespaces) if name in _LISTED}
    answers = await asyncio.gather(*(is_allowed(kind, "") for kind in kinds.values()))
    everywhere = {name for name, allowed in zip(kinds, answers, strict=True) if allowed}
    pairs = [
        (name, where)
        for name, kind in kinds.items()
        if kind.namespaced and name not in everywhere
        for where in ([namespace] if namespace else sorted(set(namespaces.get(name, ()))))
    ]
    left_out = len(pairs) - MOST_REVIEWS
    pairs = pairs[:MOST_REVIEWS]
    answers = await asyncio.gather(*(is_allowed(kinds[name], where) for name, where in pairs))
    found: dict[str, set[str]] = {}
    for (name, where), allowed in zip(pairs, answers, strict=True):
        if allowed:
            found.setdefault(name, set()).add(where)
    return Rights(
        frozenset(everywhere),
        tuple((name, frozenset(where)) for name, where in sorted(found.items())),
        tuple(_notices(kinds, everywhere, found, left_out)),
    )


def within(snapshot: Snapshot, seen: Rights) -> Snapshot:
    """Return whether a SubjectAccessReview of these resource attributes permits the request."""
    own = dict(seen.namespaces)

    def is_seen(kind: str, obj: Any) -> bool:
        # Kinds without an API resource are figures of nodes.
        name = kind if kind in _LISTED else NODE.kind
        return name in seen.everywhere or obj.metadata.namespace in own.get(name, ())

    return replace(
        snapshot,
        nodes=snapshot.nodes if NODE.kind in seen.everywhere else (),
        objects=tuple(pair for pair in snapshot.objects if is_seen(*pair)),
        bound=tuple(pod for pod in snapshot.bound if is_seen(POD.kind, pod)),
        unbound=tuple(pod for pod in snapshot.unbound if is_seen(POD.kind, pod)),
        ended=tuple(pod for pod in snapshot.ended if is_seen(POD.kind, pod)),
        notices=(*snapshot.notices, *seen.notices),
    )


def may_see_pod(seen: Rights, namespace: str) -> bool:
    """Return whether pods of a namespace are visible."""
    return POD.kind in seen.everywhere or namespace in dict(seen.namespaces).get(POD.kind, ())


def _notices(
    kinds: Mapping[str, Kind],
    everywhere: set[str],
    found: Mapping[str, set[str]],
    left_out: int,
) -> Iterable[str]:
    for name, kind in kinds.items():
        if name in everywhere:
            continue
        if some := sorted(found.get(name, ())):
            of = f"namespace {some[0]}" if len(some) == 1 else f"{len(some)} namespaces"
            yield f"{kind.plural} of {of} only: you may not list the others"
        else:
            yield f"without {kind.plural}: you may not list them"
    if left_out > 0:
        yield f"{MOST_REVIEWS} rights were asked for, {left_out} were not: name a namespace"


_LISTED = frozenset(kind.kind for kind in WATCHED)
