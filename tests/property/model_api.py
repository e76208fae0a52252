"""A small API server as a pure model: objects, watch logs, and the answers to effects.

It answers as kube-apiserver does where the engine can see the difference: a binding has the pod's
uid, a second one conflicts, a terminating pod cannot be bound, a status patch of another uid
conflicts, binding clears the nomination. It does not read the engine's state.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import json

from scheduler.base.clock import rfc3339
from scheduler.engine.effects import (
    Answer,
    AskExtender,
    Bind,
    Call,
    Effects,
    Evict,
    ExtenderAnswer,
    Listed,
    Look,
    Record,
    SetStatus,
    Solve,
    Watched,
)
from scheduler.groups.solver.questions import answer, read
from scheduler.objects.configmap import ConfigMap, ConfigMapMeta, FieldsRecord
from scheduler.objects.kinds import VOLCANO_GROUP
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod, PodCondition
from scheduler.objects.quantity import resource_amount
from scheduler.objects.workloads import Service
from scheduler.state.resources import counted, pod_requests
from tests.property.making import with_meta, with_spec, with_status
from tests.property.model_claims import answer_claim

KINDS = (
    "Node",
    "Pod",
    "Service",
    "GroupConfigMap",
    "PodGroup",
    "PodGroup.v1alpha2",
    "PodGroup.v1beta1",
)
CLUSTER_WIDE = ("Node", "ResourceSlice", "DeviceClass", "KueueTopology.v1beta1")
DISRUPTED = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
BOUND = PodCondition(type="PodScheduled", status="True")


class ModelApi:
    """Nodes, pods and services with one watch log per kind."""

    def __init__(
        self, clock: Callable[[], float] = lambda: 0.0, kinds: Sequence[str] = KINDS
    ) -> None:
        self._clock = clock
        self.kinds = tuple(kinds)
        self.objects: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
        self.log: dict[str, list[Watched]] = {kind: [] for kind in kinds}
        self.records: list[Record] = []
        # Finished pods: they stay until they are deleted, or another takes the name.
        self.finished: dict[str, Pod] = {}
        self.bound_by: dict[str, tuple[str, str]] = {}
        # The extenders' answers about a pod; only called if an engine has extenders.
        self.extender: Callable[[AskExtender, Pod], ExtenderAnswer] | None = None
        # Our binds that overcommitted a node which no other scheduler ever used.
        self.overcommitted: list[str] = []
        self.disturbed: set[str] = set()
        self._ever: set[str] = set()
        self._version = 0

    @property
    def pods(self) -> dict[str, Pod]:
        """Return the pods by `namespace/name`."""
        return self.objects["Pod"]

    @property
    def nodes(self) -> dict[str, Node]:
        """Return the nodes by name."""
        return self.objects["Node"]

    # Actions of users, controllers and kubelets.

    @property
    def placed(self) -> dict[str, tuple[str, bool]]:
        """Return where every pod is, and whether it is leaving, by uid."""
        return {
            pod.metadata.uid: (pod.spec.node_name, pod.is_terminating) for pod in self.pods.values()
        }

    def put(self, kind: str, obj: Any) -> Any:
        """Create or change an object."""
        self._version += 1
        meta = msgspec.structs.replace(obj.metadata, resource_version=str(self._version))
        obj = msgspec.structs.replace(obj, metadata=meta)
        key = _key(kind, obj)
        if kind == "Pod":
            self.collect(key)
        if kind == "Node" and key in self._ever:
            self.disturbed.add(key)
        self._ever.add(key)
        if kind == "Pod" and obj.spec.node_name:
            before = self.objects[kind].get(key)
            is_ours = obj.metadata.uid in self.bound_by
            if not is_ours or (before is not None and pod_requests(before) != pod_requests(obj)):
                self.disturbed.add(obj.spec.node_name)
        verb = "MODIFIED" if key in self.objects[kind] else "ADDED"
        known = self.objects[kind].get(key)
        if known is not None:
            obj = with_meta(obj, creation_timestamp=known.metadata.creation_timestamp)
        elif meta.creation_timestamp is None:
            obj = with_meta(obj, creation_timestamp=rfc3339(self._clock()))
        if kind == "GroupConfigMap":
            obj = noted(obj, known, rfc3339(self._clock()))
        self.objects[kind][key] = obj
        self.log[kind].append(Watched(kind, verb, obj))
        return obj

    def remove(self, kind: str, key: str) -> None:
        """Take an object away at once."""
        obj = self.objects[kind].pop(key, None)
        if obj is not None:
            self.log[kind].append(Watched(kind, "DELETED", obj))

    def terminate(self, key: str) -> None:
        """Request a pod's deletion; it stays with a deletionTimestamp until `remove`."""
        pod = self.pods.get(key)
        if pod is not None and not pod.is_terminating:
            self.put("Pod", with_meta(pod, deletion_timestamp="2026-01-01T00:00:00Z"))

    def finish(self, key: str, phase: str = "Succeeded") -> None:
        """Finish a bound pod: it uses no capacity any more and still exists."""
        pod = self.pods.get(key)
        if pod is not None and pod.spec.node_name:
            self.put("Pod", with_status(pod, phase=phase))
            self.finished[key] = self.objects["Pod"].pop(key)

    def collect(self, key: str) -> None:
        """Delete a finished pod."""
        pod = self.finished.pop(key, None)
        if pod is not None:
            self.log["Pod"].append(Watched("Pod", "DELETED", pod))

    def bind_foreign(self, key: str, node: str) -> None:
        """Bind a pod as another scheduler."""
        pod = self.pods.get(key)
        if pod is not None and not pod.spec.node_name:
            self._bind(pod, node, "another")

    def listed(self, kind: str) -> Listed:
        """Return the result of a list call now: by namespace and name."""
        every = self.objects[kind] | (self.finished if kind == "Pod" else {})
        return Listed(kind, tuple(obj for _, obj in sorted(every.items())))

    # Results of effects.

    def perform(self, effect: Effects) -> Answer | None:
        """Carry out an effect and return its answer, None for one without an answer."""
        if isinstance(effect, Bind):
            return self._answer_bind(effect)
        if isinstance(effect, AskExtender):
            return self._answer_extended(effect)
        if isinstance(effect, Look):
            pod = self.pods.get(f"{effect.namespace}/{effect.name}")
            if pod is None:
                return Answer(effect.id, 404, "NotFound", "pod not found")
            seen = {"uid": pod.metadata.uid, "nodeName": pod.spec.node_name}
            return Answer(effect.id, 200, body=seen)
        if isinstance(effect, Solve):
            # As text, as it is sent to the helper process and back.
            question = read(json.encode(effect.instance))
            return Answer(effect.id, 200, body=json.decode(json.encode(answer(question))))
        if isinstance(effect, Call) and "/resourceclaims/" in effect.path:
            return answer_claim(self, effect)
        if isinstance(effect, Call) and effect.method == "PATCH":
            return self._patch(effect)
        if isinstance(effect, Call):
            meta = ObjectMeta(name=effect.path.rpartition("/")[2], namespace="default")
            self.put("Service", Service(meta))
            return Answer(effect.id, 200)
        if isinstance(effect, Evict):
            return self._evict(effect)
        if isinstance(effect, SetStatus):
            self._set_status(effect)
        elif isinstance(effect, Record):
            self.records.append(effect)
        return None

    def _patch(self, effect: Call) -> Answer:
        """Change a ConfigMap's data by JSON patch, a pod's labels or a PodGroup's status by merge
        patch.
        """
        if effect.path.endswith("/status") or "/podgroups/" in effect.path:
            return self._patch_group(effect)
        namespace, plural, name = effect.path.split("/")[4:]
        kind = {"configmaps": "GroupConfigMap", "pods": "Pod"}[plural]
        obj = self.objects[kind].get(f"{namespace}/{name}")
        if obj is None:
            return Answer(effect.id, 404, "NotFound", f"{plural} {name} not found")
        if kind == "Pod":
            if effect.body["metadata"]["uid"] != obj.metadata.uid:
                return Answer(effect.id, 409, "Conflict", "uid")
            labels = {**obj.metadata.labels, **effect.body["metadata"]["labels"]}
            self.put(kind, with_meta(obj, labels=labels))
            return Answer(effect.id, 200)
        data = dict(obj.data or {})
        for step in effect.body:
            if step["op"] == "test":
                if step["value"] != obj.metadata.uid:
                    return Answer(effect.id, 422, "Invalid", "testing value /metadata/uid failed")
                continue
            key = step["path"].removeprefix("/data/")
            if step["op"] == "remove" and key not in data:
                return Answer(effect.id, 422, "Invalid", f"{step['path']} is not there")
            data.pop(key, None)
            if step["op"] == "add":
                data[key] = step["value"]
        self.put(kind, msgspec.structs.replace(obj, data=data))
        return Answer(effect.id, 200)

    def _patch_group(self, effect: Call) -> Answer:
        """Merge into the status of a group of any kind but a ConfigMap.

        Conditions are merged by their type.
        """
        path = effect.path.removesuffix("/status")
        _, _, group, version, _, namespace, plural, name = path.split("/")
        known_as = {"scheduling.x-k8s.io": "PodGroup", "scheduling.volcano.sh": VOLCANO_GROUP.kind}
        kind = known_as.get(group, f"PodGroup.{version}")
        kind = {"appgroups": "AppGroup", "compositepodgroups": "CompositePodGroup"}.get(
            plural, kind
        )
        obj = self.objects[kind].get(f"{namespace}/{name}")
        if obj is None:
            return Answer(effect.id, 404, "NotFound", f"{plural} {name} not found")
        if effect.body["metadata"]["uid"] != obj.metadata.uid:
            return Answer(effect.id, 409, "Conflict", "uid")
        before, wanted = msgspec.to_builtins(obj.status), dict(effect.body["status"])
        if "conditions" in wanted:
            known = {one["type"]: one for one in before.get("conditions", ())}
            known |= {one["type"]: one for one in wanted["conditions"]}
            wanted["conditions"] = list(known.values())
        if "gang" in wanted:
            wanted["gang"] = (before.get("gang") or {}) | wanted["gang"]
        status = msgspec.convert({**before, **wanted}, type(obj.status))
        self.put(kind, msgspec.structs.replace(obj, status=status))
        return Answer(effect.id, 200)

    def _answer_extended(self, effect: AskExtender) -> Answer:
        if effect.verb == "bind":
            meta = (effect.namespace, effect.name, effect.uid)
            bound = self._answer_bind(Bind(effect.id, *meta, effect.nodes[0]))
            return Answer(effect.id, 200) if bound.ok else Answer(effect.id, 0, message="no")
        pod = self.pods.get(f"{effect.namespace}/{effect.name}")
        if self.extender is None or pod is None or pod.metadata.uid != effect.uid:
            return Answer(effect.id, 0, "NotFound", "the pod is gone")
        return Answer(effect.id, 200, body=self.extender(effect, pod))

    def _answer_bind(self, effect: Bind) -> Answer:
        pod = self.pods.get(f"{effect.namespace}/{effect.name}")
        if pod is None:
            return Answer(effect.id, 404, "NotFound", f'pods "{effect.name}" not found')
        if pod.metadata.uid != effect.uid:
            text = f"Precondition failed: UID in precondition: {effect.uid}"
            return Answer(effect.id, 409, "Conflict", text)
        if pod.spec.node_name:
            text = f"pod {effect.name} is already assigned to node {pod.spec.node_name}"
            return Answer(effect.id, 409, "Conflict", text)
        if pod.is_terminating:
            text = f"pod {effect.name} is being deleted, cannot be assigned to a host"
            return Answer(effect.id, 409, "Conflict", text)
        self._bind(pod, effect.node, "us")
        return Answer(effect.id, 201)

    def _bind(self, pod: Pod, node: str, who: str) -> None:
        assert pod.metadata.uid not in self.bound_by, "the model bound a pod twice"
        self.bound_by[pod.metadata.uid] = (node, who)
        self._judge(pod, node, who)
        others = tuple(c for c in pod.status.conditions if c.type != "PodScheduled")
        pod = with_status(pod, nominated_node_name="", conditions=(*others, self._bound()))
        self.put("Pod", with_spec(pod, node_name=node))

    def _judge(self, pod: Pod, node: str, who: str) -> None:
        if who != "us":
            self.disturbed.add(node)
        if node in self.disturbed or node not in self.nodes:
            return
        there = [one for one in self.pods.values() if one.spec.node_name == node]
        used = sum(counted(pod_requests(one)).get("cpu", 0) for one in (*there, pod))
        allocatable = resource_amount("cpu", self.nodes[node].status.allocatable.get("cpu", "0"))
        if used > allocatable:
            self.overcommitted.append(f"{pod.key}: cpu {used} of {allocatable} on {node}")

    def _bound(self) -> PodCondition:
        return msgspec.structs.replace(BOUND, last_transition_time=rfc3339(self._clock()))

    def _evict(self, effect: Evict) -> Answer:
        key = f"{effect.namespace}/{effect.name}"
        pod = self.pods.get(key)
        if pod is None:
            return Answer(effect.id, 404, "NotFound", "pod not found")
        if pod.metadata.uid != effect.uid:
            return Answer(effect.id, 409, "Conflict", "uid")
        others = tuple(c for c in pod.status.conditions if c.type != DISRUPTED.type)
        self.objects["Pod"][key] = with_status(pod, conditions=(*others, DISRUPTED))
        self.terminate(key)
        return Answer(effect.id, 200)

    def _set_status(self, effect: SetStatus) -> None:
        pod = self.pods.get(f"{effect.namespace}/{effect.name}")
        if pod is None or pod.metadata.uid != effect.uid:
            return
        status = pod.status
        if effect.condition is not None:
            others = tuple(c for c in status.conditions if c.type != effect.condition.type)
            status = msgspec.structs.replace(status, conditions=(*others, effect.condition))
        if effect.nominated_node is not None:
            status = msgspec.structs.replace(status, nominated_node_name=effect.nominated_node)
        if status != pod.status:
            self.put("Pod", msgspec.structs.replace(pod, status=status))


def noted(new: ConfigMap, old: ConfigMap | None, now: str) -> ConfigMap:
    """Return a ConfigMap with its managed fields: each key as if another client had set it at its
    last change.
    """
    before = () if old is None else old.metadata.managed_fields
    known = {next(iter((one.fields_v1 or {})["f:data"])): one for one in before[1:]}
    label: dict[str, Any] = {
        "f:metadata": {"f:labels": {f"f:{name}": {} for name in new.metadata.labels}}
    }
    entries = [*before[:1]] or [FieldsRecord(now, label)]
    for key, text in (new.data or {}).items():
        is_kept = old is not None and (old.data or {}).get(key) == text
        entries.append(
            known[f"f:{key}"] if is_kept else FieldsRecord(now, {"f:data": {f"f:{key}": {}}})
        )
    meta = msgspec.convert(msgspec.to_builtins(new.metadata), ConfigMapMeta)
    meta = msgspec.structs.replace(meta, managed_fields=tuple(entries))
    return msgspec.structs.replace(new, metadata=meta)


def _key(kind: str, obj: Any) -> str:
    meta = obj.metadata
    return str(meta.name) if kind in CLUSTER_WIDE else f"{meta.namespace}/{meta.name}"
