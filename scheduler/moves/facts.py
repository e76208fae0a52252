"""Facts that decide about a move and not about scheduling, read from manifests.

Annotations of other components, local volumes and failure policies of Jobs are not in the
scheduler's structs; measured loads are read from NodeMetrics. Reads items beside `SnapshotReader`;
contains no rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from scheduler.moves.goals import LoadGoal
from scheduler.objects.quantity import resource_amount
from scheduler.objects.reports.nodemetric import NodeMetric
from scheduler.snapshot.documents import Item
from scheduler.snapshot.snapshot import Snapshot

MOST_ANNOTATION = 256  # characters of an annotation's value that count


class LocalVolume(msgspec.Struct, frozen=True):
    """A volume whose content does not survive a move; `name` is that of the volume."""

    name: str
    is_memory: bool = False


class PodFacts(msgspec.Struct, frozen=True):
    """Facts about a pod: annotations, local volumes, whether eviction responders handle it, and
    whether resource claims give it devices.
    """

    annotations: Mapping[str, str] = {}
    local: tuple[LocalVolume, ...] = ()
    has_responders: bool = False
    has_devices: bool = False


class JobFacts(msgspec.Struct, frozen=True):
    """Retries of a Job, and what its failure policy does at a disruption: "", Ignore, Count,
    FailJob.
    """

    retries: int = 6
    at_disruption: str = ""


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    annotations: dict[str, Any] | None = None


class _Volume(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    empty_dir: dict[str, Any] | None = None
    host_path: dict[str, Any] | None = None


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    volumes: list[_Volume] | None = None
    eviction_responders: list[Any] | None = None
    resource_claims: list[Any] | None = None


class _PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    extended_resource_claim_status: dict[str, Any] | None = None


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _PodSpec = _PodSpec()
    status: _PodStatus | None = None


class _OnCondition(msgspec.Struct, frozen=True):
    type: str = ""


class _Rule(msgspec.Struct, frozen=True, rename="camel"):
    action: str = ""
    on_pod_conditions: list[_OnCondition] | None = None


class _FailurePolicy(msgspec.Struct, frozen=True):
    rules: list[_Rule] | None = None


class _JobSpec(msgspec.Struct, frozen=True, rename="camel"):
    backoff_limit: int | None = None
    pod_failure_policy: _FailurePolicy | None = None


class _Job(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _JobSpec = _JobSpec()


class _Other(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


_Struct = TypeVar("_Struct", bound=msgspec.Struct)


class ClusterFacts:
    """The facts of all pods, Jobs, nodes and namespaces that were read."""

    def __init__(self) -> None:
        self._pods: dict[str, PodFacts] = {}
        self.jobs: dict[str, JobFacts] = {}
        self._nodes: dict[str, Mapping[str, str]] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}

    @property
    def pods(self) -> int:
        """Return the number of pods that were read."""
        return len(self._pods)

    def pod(self, key: str) -> PodFacts:
        """Return the facts of a pod by `namespace/name`; without any, it has no annotation."""
        return self._pods.get(key, PodFacts())

    def node(self, name: str) -> Mapping[str, str]:
        """Return the annotations of a node."""
        return self._nodes.get(name, {})

    def namespace(self, name: str) -> Mapping[str, str]:
        """Return the annotations of a namespace."""
        return self._namespaces.get(name, {})

    def take(self, item: Item) -> None:
        """Read one object; an invalid object is left to the reader of snapshots, which
        reports it.
        """
        try:
            self._take(item)
        except msgspec.ValidationError:
            return

    def _take(self, item: Item) -> None:
        kind = item.head.kind
        if kind == "Pod":
            pod = _read(item, _Pod)
            self._pods[_key(pod.metadata)] = _pod_facts(pod)
        elif kind == "Job" and (item.head.api_version or "").startswith("batch/"):
            job = _read(item, _Job)
            self.jobs[_key(job.metadata)] = _job_facts(job.spec)
        elif kind == "Node":
            node = _read(item, _Other)
            self._nodes[node.metadata.name] = _texts(node.metadata)
        elif kind == "Namespace":
            namespace = _read(item, _Other)
            self._namespaces[namespace.metadata.name] = _texts(namespace.metadata)


def _read(item: Item, struct: type[_Struct]) -> _Struct:
    if isinstance(item.raw, bytes | msgspec.Raw):
        return msgspec.json.decode(item.raw, type=struct)
    return msgspec.convert(item.raw, struct)


def _key(meta: _Meta) -> str:
    return f"{meta.namespace or 'default'}/{meta.name}"


def _texts(meta: _Meta) -> Mapping[str, str]:
    found = meta.annotations or {}
    return {key: str(value)[:MOST_ANNOTATION] for key, value in found.items() if "/" in key}


def _pod_facts(pod: _Pod) -> PodFacts:
    local = tuple(
        LocalVolume(one.name, (one.empty_dir or {}).get("medium") == "Memory")
        for one in pod.spec.volumes or ()
        if one.empty_dir is not None or one.host_path is not None
    )
    extended = pod.status is not None and pod.status.extended_resource_claim_status
    return PodFacts(
        _texts(pod.metadata),
        local,
        bool(pod.spec.eviction_responders),
        bool(pod.spec.resource_claims or extended),
    )


def _job_facts(spec: _JobSpec) -> JobFacts:
    policy = spec.pod_failure_policy
    for rule in (policy.rules or ()) if policy else ():
        if any(one.type == "DisruptionTarget" for one in rule.on_pod_conditions or ()):
            return JobFacts(6 if spec.backoff_limit is None else spec.backoff_limit, rule.action)
    return JobFacts(6 if spec.backoff_limit is None else spec.backoff_limit)


def loads(snapshot: Snapshot, goal: LoadGoal) -> tuple[dict[str, int], dict[str, int]]:
    """Return the load of each pod by key, and threshold minus load of each node by name.

    A node without a measurement is neither above its threshold nor a destination.
    """
    pods: dict[str, int] = {}
    headroom: dict[str, int] = {}
    offered = {node.metadata.name: node.status.allocatable for node in snapshot.nodes}
    for _, metric in snapshot.objects:
        if not isinstance(metric, NodeMetric) or metric.status.node_metric is None:
            continue
        name, resource = metric.metadata.name, goal.resource
        usage = metric.status.node_metric.node_usage.resources
        if name not in offered or resource not in usage or resource not in offered[name]:
            continue
        capacity = resource_amount(resource, offered[name][resource])
        headroom[name] = capacity * goal.percent // 100 - resource_amount(resource, usage[resource])
        for one in metric.status.pods_metric:
            if resource in one.pod_usage.resources:
                amount = resource_amount(resource, one.pod_usage.resources[resource])
                pods[f"{one.namespace}/{one.name}"] = max(0, amount)
    return pods, headroom
