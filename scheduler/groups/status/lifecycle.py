"""The lifecycle of a group as a table, and the writes to the group's ConfigMap and its pods.

Status names, keys and formats are Sakkara's; `message` and `proof` are ours. Momentary states
(Ready, Assigned, Permitted) are kept in memory and never written: no reader could see them in time.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from scheduler.base.clock import parse_rfc3339, rfc3339_micro
from scheduler.framework.calls import ApiCall
from scheduler.framework.groups import MemberOrder
from scheduler.groups.capacity import Lack
from scheduler.groups.cycle.states import WAITING
from scheduler.groups.problem.answer import NOTHING, Outcome, SolvedStage
from scheduler.groups.sources.configmap import BOUND
from scheduler.groups.topology.placement import MemberPlacement, rank_text, ranks, tree_text
from scheduler.groups.topology.tree import Topology
from scheduler.state.podindex import Placed

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
LONGEST_MESSAGE = 1024
MEMBER_STATUS, MEMBER_RETRIES = "sakkara.member.status", "sakkara.member.retries"
MEMBER_RANK = "sakkara.member.rank"

# Statuses used in reports only: the ConfigMap of a waiting group has the status Failed, as
# Sakkara's does.
DOES_NOT_FIT, COMPLETED = "DoesNotFit", "Completed"


class PlacementProof(msgspec.Struct, frozen=True):
    """The proof of the placement of a whole group: see `GroupReport`.

    `bound` is empty for a placement in several steps: each step is proven for its own members only.
    Members that were bound before the first step do not move, and the proof is about the placement
    beside them.
    """

    optimal: bool = False
    objective: tuple[int, ...] = ()
    bound: tuple[int | None, ...] = ()
    terms: tuple[str, ...] = ()

    def after(
        self,
        outcome: Outcome,
        stages: Sequence[SolvedStage],
        *,
        optimal: bool,
        is_partial: bool,
    ) -> "PlacementProof":
        """Return the proof after a solve; `is_partial`: with other members in place already."""
        if is_partial and outcome != "placed" and self.objective:
            return self  # the members in place stay where they are
        is_step = is_partial and bool(self.objective)
        return PlacementProof(
            optimal and not is_step,
            tuple(stage.value for stage in stages),
            () if is_step else tuple(stage.known_bound for stage in stages),
            tuple(f"{stage.level} {stage.measure}".strip() for stage in stages),
        )


class GroupRecord(msgspec.Struct):
    """The state of a group between its attempts, for reports; no decision depends on it.

    `is_partial`: the current attempt places members beside others that are bound already.
    `is_whole`: `proof` is about all members, none of them bound before. `preemptor`: the group for
    which it was evicted, empty for a pod on its own. `would_fit` is the largest smaller group that
    fits; `is_final`: it does not fit an empty cluster either. `refused`: the uids of the members
    that the last plans had no capacity for. `lack`: the minimum capacity that a rejected group
    needs before a plan can succeed; None if evictions may help. `final`: the uid of the PodGroup
    that is reported as scheduled: nothing else is reported of it. `bound_event_of`: the uid of the
    object that has the event about the bound group. `tree`: the tree of the last plan.
    `counted_at`: when counts of members were written last. `orders`: the members of the last plan
    by index.
    """

    status: str = WAITING
    message: str = ""
    began: float | None = None
    ended: float | None = None
    solver_s: float = 0.0
    retries: int = 0
    proof: PlacementProof = PlacementProof()
    is_partial: bool = False
    is_whole: bool = False
    conflict: tuple[str, ...] = ()
    would_fit: int = 0
    is_final: bool = False
    victims: tuple[Placed, ...] = ()
    awaited: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    lack: Lack | None = None
    reporter: str = ""
    released_at: float = 0.0
    is_error: bool = False
    announced: str = ""
    reported_of: str = ""
    reported_at: float = 0.0
    bound_event_of: str = ""
    preemptor: str = ""
    final: str = ""
    tree: Topology | None = None
    counted_at: float = 0.0
    orders: tuple[MemberOrder, ...] = ()

    def begin(self, tree: Topology) -> None:
        """Record that a plan in this tree starts, and clear the results of the previous one."""
        self.tree = tree
        self.retries += 1
        self.conflict, self.would_fit, self.is_final, self.lack = (), 0, False, None

    def expect(self, victims: tuple[Placed, ...], message: str) -> None:
        """Note the pods whose eviction a plan waits for."""
        self.victims, self.message = victims, message
        self.awaited = frozenset(victim.pod.metadata.uid for victim in victims)


def status_patch(config_map: Any, values: Mapping[str, str | None]) -> list[ApiCall]:
    """Return the request that sets keys of a ConfigMap (None removes one), or None if no value
    differs.
    """
    data: Mapping[str, str] = config_map.data or {}
    steps: list[dict[str, str]] = []
    for key, value in values.items():
        if value is None:
            if key in data:
                steps.append({"op": "remove", "path": f"/data/{key}"})
        elif data.get(key) != value:
            steps.append({"op": "add", "path": f"/data/{key}", "value": value})
    if not steps:
        return []
    meta = config_map.metadata
    path = f"/api/v1/namespaces/{meta.namespace}/configmaps/{meta.name}"
    # The API server refuses it (422) when another object has taken the name.
    same = {"op": "test", "path": "/metadata/uid", "value": meta.uid}
    return [ApiCall("PATCH", path, [same, *steps], JSON_PATCH)]


def proof_of(record: GroupRecord) -> str | None:
    """Return the proof of a whole group's placement as JSON, None if there is none or this process
    does not have it.
    """
    return msgspec.json.encode(record.proof).decode() if record.is_whole else None


def proven(text: str) -> PlacementProof:
    """Return the proof that `proof_of` wrote; an unreadable text is no proof."""
    try:
        found = msgspec.json.decode(text.encode(), type=PlacementProof)
    except (msgspec.MsgspecError, RecursionError):
        return PlacementProof()
    # Earlier versions wrote the solver's own value for a missing bound.
    bound = tuple(None if one is None or one <= NOTHING else one for one in found.bound)
    return msgspec.structs.replace(found, bound=bound)


def placed_on(placements: list[MemberPlacement], proof: str | None) -> dict[str, str | None]:
    """Return the ConfigMap keys that report the members' nodes and, if it is known, the proof."""
    return {
        "placement": tree_text(placements),
        "proof": proof,
        "rank": rank_text(ranks(placements)),
    }


def results(placements: list[MemberPlacement], record: GroupRecord) -> dict[str, str | None]:
    """Return the ConfigMap keys that report a bound group."""
    began, ended = record.began, record.ended
    total = "" if began is None or ended is None else str(max(0, round((ended - began) * 1000)))
    return {
        "status": BOUND,
        "message": None,
        **placed_on(placements, proof_of(record)),
        "schedBeginTime": "" if began is None else rfc3339_micro(began),
        "schedEndTime": "" if ended is None else rfc3339_micro(ended),
        "schedTotalTimeMilli": total,
        "schedSolverTimeMilli": str(round(record.solver_s * 1000)),
    }


def labels(
    placed: Iterable[Placed], placements: list[MemberPlacement], retries: int
) -> list[ApiCall]:
    """Return the requests that label members with their status, rank and number of attempts."""
    rank_of = ranks(placements)
    calls = []
    for one in placed:
        meta = one.pod.metadata
        wanted = {MEMBER_STATUS: BOUND, MEMBER_RETRIES: str(retries)}
        if meta.name in rank_of:
            wanted[MEMBER_RANK] = str(rank_of[meta.name])
        changed = {key: value for key, value in wanted.items() if meta.labels.get(key) != value}
        if changed:
            path = f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}"
            body = {"metadata": {"uid": meta.uid, "labels": changed}}
            calls.append(ApiCall("PATCH", path, body, MERGE_PATCH))
    return calls


def began_at(placed: Iterable[Placed], fallback: float) -> float:
    """Return when a group's oldest member was created: the start of its waiting time."""
    times = [parse_rfc3339(one.pod.metadata.creation_timestamp) for one in placed]
    return min([fallback, *(time for time in times if time is not None)])
