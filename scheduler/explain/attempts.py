"""`AttemptRecord`: the result of an attempt as the daemon stores it, and clusters restored from
them.

The daemon's ring has the last ones, a decision log all of them. `history` are those of one pod in
order, `moments` the positions of a page's slider, `undone` a cluster before the later ones. Times
are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from scheduler.base.clock import parse_rfc3339, rfc3339
from scheduler.objects.pod import Pod
from scheduler.simulate.records import API_VERSION, PodName
from scheduler.snapshot.snapshot import Snapshot


class AttemptRecord(msgspec.Struct, rename="camel"):
    """One attempt, or several in a row with the same result: `times`, from `since` to `at`.

    `node` is empty if none was found; `attempts` counts all attempts of the pod so far. `rejected`
    counts nodes by plugin and reason, `scores` are (plugin, raw, normalised, weight) of the chosen
    node.
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
        """Return whether it has the same result as `before`, the previous attempt of the
        same pod.
        """
        return (
            not self.node
            and self.uid == before.uid
            and self.message == before.message
            and self.nominated_node == before.nominated_node
            and self.victims == before.victims
        )

    def repeat(self, again: AttemptRecord) -> None:
        """Extend the record by another attempt with the same result."""
        self.at, self.attempts, self.times = again.at, again.attempts, self.times + 1
        self.feasible_nodes, self.all_nodes = again.feasible_nodes, again.all_nodes
        self.rejected = again.rejected


class LeaderChange(NamedTuple):
    """The time at which the recording process began or ceased to lead."""

    at: float
    is_leading: bool


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
    """The attempts of one pod, oldest first.

    `kept_since` is the time of the oldest attempt of any pod.
    """

    api_version: str = API_VERSION
    kind: str = "History"
    namespace: str
    name: str
    kept_since: str | None
    attempts: tuple[PastAttempt, ...]


def history(attempts: Iterable[AttemptRecord], namespace: str, name: str) -> History:
    """Return the stored attempts of a pod; empty if there are none."""
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


def moments(
    attempts: Iterable[AttemptRecord], leading: Iterable[LeaderChange] = ()
) -> dict[str, Any]:
    """Return the attempts for a page, ordered by the first of equal results, oldest first, and the
    changes of leadership.
    """
    return {
        "leading": [{"at": one.at, "isLeading": one.is_leading} for one in leading],
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
        ],
    }


def undone(snapshot: Snapshot, attempts: Iterable[AttemptRecord], at: float) -> Snapshot:
    """Return `snapshot` as it was at `at`: pods placed later are pending, pods created later are
    absent.

    Objects deleted since then are unknown and stay missing.
    """
    coming = [one for one in attempts if one.since > at]
    later = {one.uid for one in coming if one.node}
    untried = {one.uid for one in coming if one.attempts == one.times}

    def is_there(pod: Pod) -> bool:
        created = parse_rfc3339(pod.metadata.creation_timestamp or "")
        if created is None or created <= at - 1:
            return True
        # Timestamps are cut to whole seconds: within one, the first attempt decides.
        return created <= at and pod.metadata.uid not in untried

    waiting = [
        replace(pod, spec=replace(pod.spec, node_name=""))
        for pod in snapshot.bound
        if pod.metadata.uid in later and is_there(pod)
    ]
    return replace(
        snapshot,
        bound=tuple(pod for pod in snapshot.bound if pod.metadata.uid not in later),
        unbound=(*filter(is_there, snapshot.unbound), *waiting),
        taken_at=at,
    )


def assumed(snapshot: Snapshot, attempts: Iterable[AttemptRecord], at: float) -> Snapshot:
    """Return `snapshot` with assumed pods on their nodes: those whose binding was unconfirmed at
    `at`.
    """
    node_of = {one.uid: one.node for one in attempts if one.since <= at}
    chosen = [
        replace(pod, spec=replace(pod.spec, node_name=node))
        for pod in snapshot.unbound
        if (node := node_of.get(pod.metadata.uid))
    ]
    uids = {pod.metadata.uid for pod in chosen}
    waiting = tuple(pod for pod in snapshot.unbound if pod.metadata.uid not in uids)
    return replace(snapshot, bound=(*snapshot.bound, *chosen), unbound=waiting)
