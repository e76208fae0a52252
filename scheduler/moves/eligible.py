"""Which pods may move, and why each other pod stays, in one line.

The strictest rule of all components that can evict counts: controllers that create no replacement,
budgets, opt-outs, data that would be lost. Nothing here reads a cluster.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from scheduler.base.clock import parse_rfc3339
from scheduler.moves import optouts
from scheduler.moves.facts import ClusterFacts
from scheduler.objects.moves.moveplan import DONE, EXECUTING, MovePlan, owner_key
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.objects.policy import PodDisruptionBudget
from scheduler.objects.selectors import selector_matches
from scheduler.objects.storage import PersistentVolumeClaim
from scheduler.snapshot.snapshot import Snapshot

REPLACING = ("ReplicaSet", "StatefulSet", "ReplicationController", "Job")
BOUND_TO_NODE = ("DaemonSet", "Node")
MIRROR = "kubernetes.io/config.mirror"
SYSTEM_CLASSES = ("system-node-critical", "system-cluster-critical")
SYSTEM_PRIORITY = 2_000_000_000
LOCAL_DATA, JOB_RETRIES, SINGLE_REPLICA, ANY_PRIORITY, DEVICE_CLAIMS = (
    "local-data",
    "job-retries",
    "single-replica",
    "any-priority",
    "device-claims",
)
ALLOWANCES = (LOCAL_DATA, JOB_RETRIES, SINGLE_REPLICA, ANY_PRIORITY, DEVICE_CLAIMS)


class MoveRules(msgspec.Struct, frozen=True):
    """A user's limits on movable pods.

    `allowed` are names of ALLOWANCES. `priority` is the highest one that may move, None for any.
    `namespaces` are those whose pods may move, empty for all. Pods of the owners with the keys
    `cooling` stay, because one of them was moved recently.
    """

    allowed: frozenset[str] = frozenset()
    priority: int | None = None
    namespaces: frozenset[str] = frozenset()
    least_age_s: float = 300.0
    cooling: frozenset[str] = frozenset()


class Eligibility:
    """The verdicts on all pods of a snapshot."""

    def __init__(
        self,
        snapshot: Snapshot,
        facts: ClusterFacts,
        profiles: Collection[str],
        rules: MoveRules,
        now: float,
    ) -> None:
        self._facts, self._profiles, self._rules, self._now = facts, profiles, rules, now
        self._nodes = {node.metadata.name: node for node in snapshot.nodes}
        self._claims = {
            f"{claim.metadata.namespace}/{claim.metadata.name}": claim
            for _, claim in snapshot.objects
            if isinstance(claim, PersistentVolumeClaim)
        }
        self._budgets: defaultdict[str, list[PodDisruptionBudget]] = defaultdict(list)
        for _, budget in snapshot.objects:
            if isinstance(budget, PodDisruptionBudget):
                self._budgets[budget.metadata.namespace].append(budget)
        self._moving = {
            move.uid: plan.metadata.name
            for _, plan in snapshot.objects
            if isinstance(plan, MovePlan) and plan.status.phase == EXECUTING
            for move in plan.status.moves
            if move.state != DONE
        }
        self._replicas = Counter(owner_uid(pod) for pod in snapshot.bound if not pod.is_finished)
        self._unready = {
            owner_uid(pod)
            for pod in (*snapshot.bound, *snapshot.unbound)
            if owner_uid(pod) and not is_ready(pod)
        }

    def why_immovable(self, pod: Pod) -> str:
        """Return the first reason why a pod may not move; empty if it may."""
        return self.why_forbidden(pod) or self.why_unavailable((pod,))

    def why_forbidden(self, pod: Pod) -> str:
        """Return the first reason that does not disappear by waiting; '' if there is none."""
        return next(self._forbidden(pod), "")

    def why_unavailable(self, pods: Sequence[Pod]) -> str:
        """Return the first reason that may pass why pods may not be evicted together: replicas that
        are not Ready, or a budget.
        """
        reasons = (reason for pod in pods for reason in self._availability(pod))
        return next(reasons, "") or self.over_budget(pods)

    def over_budget(self, pods: Sequence[Pod]) -> str:
        """Return the budget that forbids evicting all of these pods, '' for none."""
        covering = [budget for pod in pods for budget in self.budgets(pod)]
        for budget in covering:
            allowed = budget.status.disruptions_allowed
            if covering.count(budget) > allowed:
                name = budget.metadata.name
                return f"the PodDisruptionBudget {name} allows {allowed} of {len(pods)} disruptions"
        return ""

    def budgets(self, pod: Pod) -> list[PodDisruptionBudget]:
        """Return the budgets that cover a pod."""
        return [
            budget
            for budget in self._budgets.get(pod.metadata.namespace, ())
            if selector_matches(budget.spec.selector, pod.metadata.labels)
        ]

    def _forbidden(self, pod: Pod) -> Iterator[str]:
        yield from self._state(pod)
        yield from self._owner(pod)
        yield from self._opt_outs(pod)
        yield from self._data(pod)

    def _state(self, pod: Pod) -> Iterator[str]:
        rules, namespace = self._rules, pod.metadata.namespace
        if pod.is_terminating:
            yield "it is terminating"
        if (plan := self._moving.get(pod.metadata.uid)) is not None:
            yield f"the MovePlan {plan} moves it"
        if pod.status.phase not in ("", "Running"):
            yield f"its phase is {pod.status.phase}"
        if pod.spec.scheduler_name not in self._profiles:
            yield f"schedulerName {pod.spec.scheduler_name} is no profile of this scheduler"
        if rules.namespaces and namespace not in rules.namespaces:
            yield "its namespace is not part of the plan"
        if pod.spec.priority_class_name in SYSTEM_CLASSES or pod.priority >= SYSTEM_PRIORITY:
            yield "it is critical for the system"
        if rules.priority is not None and pod.priority > rules.priority:
            yield f"its priority is above {rules.priority}"
        age = age_s(pod, self._now)
        if age is not None and age < rules.least_age_s:
            yield f"it started less than {rules.least_age_s:.0f} s ago"

    def _owner(self, pod: Pod) -> Iterator[str]:
        facts = self._facts.pod(pod.key)
        owner = next((one for one in pod.metadata.owner_references if one.controller), None)
        kinds = {one.kind for one in pod.metadata.owner_references}
        if MIRROR in facts.annotations or "Node" in kinds:
            yield "it is a static pod"
        if "DaemonSet" in kinds:
            yield "it is a pod of a DaemonSet"
        if owner is None:
            yield "no controller creates a replacement"
            return
        if owner_key(owner.kind, pod.metadata.namespace, owner.name) in self._rules.cooling:
            yield "a pod of its owner was moved recently"
        if owner.kind not in REPLACING:
            yield f"it is not known that a {owner.kind} creates a replacement"
        elif owner.kind == "Job":
            yield from self._job(f"{pod.metadata.namespace}/{owner.name}")

    def _job(self, key: str) -> Iterator[str]:
        job = self._facts.jobs.get(key)
        allowed = JOB_RETRIES in self._rules.allowed
        if job is None:
            if not allowed:
                yield "its Job is not known, so an eviction may count as a failure"
        elif job.at_disruption == "FailJob":
            yield "its Job fails at a disruption (podFailurePolicy FailJob)"
        elif job.at_disruption != "Ignore" and (job.retries < 1 or not allowed):
            yield "its Job counts an eviction as a failure (no podFailurePolicy Ignore)"

    def _opt_outs(self, pod: Pod) -> Iterator[str]:
        facts, meta = self._facts.pod(pod.key), pod.metadata
        annotations = {**_own(self._facts.namespace(meta.namespace)), **facts.annotations}
        kept = optouts.protection(annotations, meta.labels, age_s(pod, self._now))
        if kept:
            yield kept
        if facts.has_responders:
            yield "it lists responders for evictions (spec.evictionResponders)"
        kept = optouts.node_protection(self._facts.node(pod.spec.node_name))
        if kept:
            yield f"its node has {kept}"
        node = self._nodes.get(pod.spec.node_name)
        if node is None:
            yield "its node is not known"
        elif is_leaving(node):
            yield "an autoscaler removes its node"

    def _data(self, pod: Pod) -> Iterator[str]:
        facts = self._facts.pod(pod.key)
        local = frozenset(one.name for one in facts.local if not one.is_memory)
        allowed = LOCAL_DATA in self._rules.allowed
        if local and not allowed and not optouts.lifts_local(facts.annotations, local):
            yield f"its local data would be lost (volume {min(local)})"
        for volume in pod.spec.volumes:
            source = volume.persistent_volume_claim
            name = source.claim_name if source else f"{pod.metadata.name}-{volume.name}"
            if source is None and volume.ephemeral is None:
                continue
            claim = self._claims.get(f"{pod.metadata.namespace}/{name}")
            if claim is None or "ReadWriteMany" not in claim.spec.access_modes:
                yield f"its volume {volume.name} cannot be on two nodes"
        if any(one.resource_claim_name for one in pod.spec.resource_claims):
            yield "it uses a named resource claim"
        if facts.has_devices and DEVICE_CLAIMS not in self._rules.allowed:
            yield "its devices cannot be reserved for its replacement (resource claims)"

    def _availability(self, pod: Pod) -> Iterator[str]:
        owner = owner_uid(pod)
        kind = next((one.kind for one in pod.metadata.owner_references if one.controller), "")
        if not is_ready(pod):
            yield "it is not Ready"
        elif owner in self._unready:
            yield "another replica of its owner is not Ready"
        single = self._replicas[owner] == 1 and kind != "Job"
        if single and SINGLE_REPLICA not in self._rules.allowed:
            yield "it is the only replica of its owner"
        found = self.budgets(pod)
        if len(found) > 1:
            names = ", ".join(sorted(one.metadata.name for one in found)[:2])
            yield f"the API server refuses evictions: several PodDisruptionBudgets ({names})"
        elif found and found[0].status.disruptions_allowed < 1:
            yield f"the PodDisruptionBudget {found[0].metadata.name} allows no disruption"


def owner_uid(pod: Pod) -> str:
    """Return the uid of the controller of a pod, '' if it has none."""
    return next(
        (one.uid or one.name for one in pod.metadata.owner_references if one.controller), ""
    )


def is_ready(pod: Pod) -> bool:
    """Return whether a pod is Ready; a pod without a status, as in a written snapshot, counts as
    Ready.
    """
    condition = pod.condition("Ready")
    if condition is not None:
        return condition.status == "True"
    return bool(pod.spec.node_name)


def age_s(pod: Pod, now: float) -> float | None:
    """Return the seconds since a pod started; None if its start is not known."""
    started = parse_rfc3339(pod.status.start_time or pod.metadata.creation_timestamp)
    return None if started is None else max(0.0, now - started)


def is_leaving(node: Node) -> bool:
    """Return whether an autoscaler is about to remove a node."""
    return any(taint.key in optouts.REMOVAL_TAINTS for taint in node.spec.taints)


def is_bound_to_node(pod: Pod) -> bool:
    """Return whether a pod ends with its node: it keeps no node in use."""
    return any(one.kind in BOUND_TO_NODE for one in pod.metadata.owner_references)


def counted(reasons: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Return pods by reason, the most frequent reason first."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for pod, reason in reasons:
        found[reason].append(pod)
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def _own(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return Trellis's annotation of a namespace, which applies to all of its pods."""
    value = annotations.get(optouts.OWN)
    return {} if value is None else {optouts.OWN: value}
