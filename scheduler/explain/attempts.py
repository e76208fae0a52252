"""`AttemptRecord`: what an attempt at a pod came to, as the daemon keeps it; and the way back in time by them.

The daemon's ring holds the last ones, a decision log all of them. `history` are those of one pod in order,
`moments` what a page's slider moves along, `undone` a cluster as it was before the later ones. Times are
seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.base.clock import parse_rfc3339, rfc3339
from scheduler.objects.pod import Pod
from scheduler.simulate.records import API_VERSION, PodName
from scheduler.snapshot.snapshot import Snapshot


class AttemptRecord(msgspec.Struct, rename="camel"):
    """One attempt, or several in a row that came to the same: `times`, from `since` to `at`.

    `node` is empty where none was found; `attempts` counts all attempts at the pod so far. `rejected`
    counts nodes by plugin and reason, `scores` are (plugin, raw, normalised, weight) of the chosen node.
    """

    namespace: str
    name: str
    uid: str
    profile: str
    since: float
    at: float
    times: int
    attempts: int
    node: str
    message: str
    nominated_node: str | None
    victims: tuple[PodName, ...]
    feasible_nodes: int
    all_nodes: int
    rejected: dict[str, dict[str, int]]
    scores: tuple[tuple[str, int, int, int], ...] = ()

    def repeats(self, before: AttemptRecord) -> bool:
        """Whether it says what the attempt before said, of the same pod."""
        return (
            not self.node
            and self.uid == before.uid
            and self.message == before.message
            and self.nominated_node == before.nominated_node
            and self.victims == before.victims
        )

    def repeat(self, again: AttemptRecord) -> None:
        """Take in an attempt that came to the same."""
        self.at, self.attempts, self.times = again.at, again.attempts, self.times + 1
        self.feasible_nodes, self.all_nodes = again.feasible_nodes, again.all_nodes
        self.rejected = again.rejected


class PastAttempt(msgspec.Struct, frozen=True, rename="camel"):
    """One line of a history; times as RFC 3339."""

    since: str
    at: str
    times: int
    attempts: int
    node: str | None
    message: str
    nominated_node: str | None
    victims: tuple[PodName, ...]
    feasible_nodes: int
    all_nodes: int
    rejected: dict[str, dict[str, int]]


class History(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The attempts at one pod, oldest first; `kept_since` is when the oldest attempt at any pod was made."""

    api_version: str = API_VERSION
    kind: str = "History"
    namespace: str
    name: str
    kept_since: str | None
    attempts: tuple[PastAttempt, ...]


def history(attempts: Iterable[AttemptRecord], namespace: str, name: str) -> History:
    """Return what is kept of a pod; no attempts where nothing is."""
    listed = list(attempts)
    found = [one for one in listed if one.name == name and one.namespace == namespace]
    return History(
        namespace=namespace,
        name=name,
        kept_since=rfc3339(min(one.since for one in listed)) if listed else None,
        attempts=tuple(
            PastAttempt(
                rfc3339(one.since),
                rfc3339(one.at),
                one.times,
                one.attempts,
                one.node or None,
                one.message,
                one.nominated_node,
                one.victims,
                one.feasible_nodes,
                one.all_nodes,
                one.rejected,
            )
            for one in found
        ),
    )


def moments(attempts: Iterable[AttemptRecord]) -> dict[str, Any]:
    """Return what a page shows of attempts, oldest first by when they began to come to the same."""
    return {
        "moments": [
            {
                "at": one.since,
                "until": one.at,
                "times": one.times,
                "pod": f"{one.namespace}/{one.name}",
                "node": one.node or None,
                "message": one.message,
                "victims": [f"{gone.namespace}/{gone.name}" for gone in one.victims],
            }
            for one in sorted(attempts, key=lambda one: one.since)
        ]
    }


def undone(world: Snapshot, attempts: Iterable[AttemptRecord], at: float) -> Snapshot:
    """Return `world` as it was at `at`, as far as later placements tell: their pods wait, or are not there yet.

    What has been deleted since is not known, and stays away.
    """
    coming = [one for one in attempts if one.since > at]
    later = {one.uid for one in coming if one.node}
    untried = {one.uid for one in coming if one.attempts == one.times}

    def is_there(pod: Pod) -> bool:
        created = parse_rfc3339(pod.metadata.creation_timestamp or "")
        if created is None or created <= at - 1:
            return True
        # Timestamps are cut to whole seconds: within one, the first attempt tells.
        return created <= at and pod.metadata.uid not in untried

    waiting = [
        replace(pod, spec=replace(pod.spec, node_name=""))
        for pod in world.bound
        if pod.metadata.uid in later and is_there(pod)
    ]
    return replace(
        world,
        bound=tuple(pod for pod in world.bound if pod.metadata.uid not in later),
        unbound=(*filter(is_there, world.unbound), *waiting),
        taken_at=at,
    )


def assumed(world: Snapshot, attempts: Iterable[AttemptRecord], at: float) -> Snapshot:
    """Return `world` with the pods on their nodes for which the API server's word had not come back by `at`."""
    node_of = {one.uid: one.node for one in attempts if one.since <= at}
    chosen = [
        replace(pod, spec=replace(pod.spec, node_name=node))
        for pod in world.unbound
        if (node := node_of.get(pod.metadata.uid))
    ]
    uids = {pod.metadata.uid for pod in chosen}
    waiting = tuple(pod for pod in world.unbound if pod.metadata.uid not in uids)
    return replace(world, bound=(*world.bound, *chosen), unbound=waiting)
