"""The real cluster on which cases are played: objects in, one decision at a time, everything out again.

Follows kube-scheduler's log and metrics, so that a pod is only created when the scheduler has seen all
that came before it. Plays the volume controller, because nobody else does.
"""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from itertools import groupby
from time import monotonic
from typing import Any

from tests.apiserver.realcluster import KubeScheduler
from tests.differential.case import Outcome
from tests.differential.kinds import (
    CHANGING,
    COUNTED,
    KINDS,
    STATUS_APART,
    Manifest,
    api_version,
    collection,
    key_of,
    path_of,
)
from tests.differential.klog import Attempted, Follower
from tests.differential.volumeplay import play_controller
from tests.real.api import MERGE, Api, ApiError
from tests.real.schedulers import pause

POLL_S = 0.003
PATIENCE_S = 10.0
# What has no trace in log or metrics (services, budgets ...) is created first and has this long.
SETTLE_S = 0.02
DELETION = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
FINISHED = {"Succeeded", "Failed"}
_HANDLED = re.compile(
    r'^scheduler_event_handling_duration_seconds_count\{event="(?:[^"]+/)?(\w+)"\} (\d+)',
    re.MULTILINE,
)


class StageError(AssertionError):
    """The cluster did not do what a case needs; the case says nothing about the schedulers."""


class Stage:
    """One API server with one kube-scheduler; `settle_s` is the time for what leaves no trace."""

    def __init__(self, api: Api, scheduler: KubeScheduler, namespaces: list[Manifest]) -> None:
        self.api = api
        self.settle_s = SETTLE_S
        self.is_disturbed = False
        self.refused: list[str] = []
        self._scheduler = scheduler
        self._log = Follower(scheduler.program.log)
        self._namespaces = namespaces
        self._objects: dict[str, Manifest] = {}
        self._expected: Counter[str] = Counter()
        self._counted: Counter[str] = Counter()

    async def build(self, objects: list[Manifest]) -> None:
        """Create a case's objects and wait until kube-scheduler has seen them."""
        self.is_disturbed = False
        self.refused.clear()
        self._log.read()
        self._log.forget()
        for _, group in groupby(_in_order(objects), key=lambda obj: obj["kind"]):
            await self._each(self._create, list(group))
        await self._seen()

    async def snapshot(self) -> list[Manifest]:
        """Return everything that the API server holds, without what only it needs."""
        for kind in CHANGING:
            if kind == "Pod" or any(obj["kind"] == kind for obj in self._objects.values()):
                await self._refresh(kind)
        return [*self._namespaces, *self._objects.values()]

    async def decide(self, pod: Manifest) -> tuple[Manifest, Outcome]:
        """Create `pod`, wait for kube-scheduler's decision; return the pod as it saw it, and that."""
        self._log.read()
        promised = pod.get("status", {}).get("nominatedNodeName")
        stored = await (self._promised(pod, promised) if promised else self._posted(pod))
        key = key_of(stored)
        if stored["spec"].get("schedulingGates"):
            await self._until(lambda: self._saw("Add unscheduled pod", key), f"{key} to be seen")
            return stored, Outcome("Gated")
        tried = len(self._log.order)
        attempt = await self._attempt(stored, key)
        outcome = await self._told(stored, attempt)
        self._log.read()
        self.is_disturbed = set(self._log.order[tried:]) != {key}
        return stored, outcome

    async def remove(self, pod: Manifest) -> None:
        """Delete a pod at once and wait until kube-scheduler knows."""
        key = key_of(pod)
        await self._gone([path_of({**pod, "kind": "Pod"})])
        self._objects.pop(f"Pod {key}", None)
        await self._until(lambda: self._saw("Delete unscheduled pod", key), f"{key} to be gone")

    async def clear(self) -> None:
        """Remove everything that the case brought."""
        await self._refresh("Pod")
        kinds = ("Pod", "Node", *(kind for kind in reversed(KINDS) if kind not in {"Pod", "Node"}))
        for kind in kinds:
            mine = [obj for obj in self._objects.values() if obj["kind"] == kind]
            if kind in {"PersistentVolumeClaim", "PersistentVolume", "CSINode"}:
                mine = await self._listed(kind)
            for obj in mine:
                if obj["metadata"].get("finalizers"):
                    await self.api.patch(path_of(obj), {"metadata": {"finalizers": None}}, MERGE)
            await self._gone([path_of(obj) for obj in mine])
            if kind == "VolumeAttachment":
                self._expected[f"{kind}Delete"] += len(mine)
            if kind == "Pod":
                await self._all_seen([(f"Delete {_state(pod)} pod", key_of(pod)) for pod in mine])
            if kind == "Node":
                await self._all_seen([("Delete node", key_of(node)) for node in mine])
        self._objects.clear()
        await self._counts_reached()

    def close(self) -> None:
        """Stop following the log."""
        self._log.close()

    # ---------------------------------------------------------------------------------------

    async def _posted(self, pod: Manifest) -> Manifest:
        path = collection("Pod", pod["metadata"]["namespace"])
        return _trimmed(await self.api.expect("POST", path, pod), "Pod")

    async def _promised(self, pod: Manifest, node: str) -> Manifest:
        """Create a pod that is nominated to a node already; a gate keeps it back until it is."""
        spec = {**pod["spec"], "schedulingGates": [{"name": "example.com/nominate"}]}
        path = path_of({**await self._posted({**pod, "spec": spec}), "kind": "Pod"})
        await self.api.patch(f"{path}/status", {"status": {"nominatedNodeName": node}}, MERGE)
        return _trimmed(await self.api.patch(path, {"spec": {"schedulingGates": None}}), "Pod")

    async def _create(self, wanted: Manifest) -> None:
        kind, status = wanted["kind"], wanted.get("status")
        obj = {"apiVersion": api_version(kind), **wanted}
        is_leaving = "deletionTimestamp" in obj["metadata"]
        if is_leaving:
            meta = {k: v for k, v in obj["metadata"].items() if k != "deletionTimestamp"}
            obj = {**obj, "metadata": meta}
        path = collection(kind, obj["metadata"].get("namespace", ""))
        code, stored = await self.api.request("POST", path, obj)
        if code != 201:
            self.refused.append(str(stored.get("message", stored)))
            return
        self._expected[f"{kind}Add"] += 1
        own, key = path_of({**stored, "kind": kind}), key_of(stored)
        if status and kind in STATUS_APART:
            stored = await self.api.patch(f"{own}/status", {"status": status}, MERGE)
            self._expected[f"{kind}Update"] += 1
            self._expected[f"update {key}"] += kind == "Pod" and not _is_finished(wanted)
        if is_leaving:
            stored = await self.api.expect("DELETE", own)
            self._expected[f"update {key}"] += kind == "Pod"
        self._objects[f"{kind} {key}"] = _trimmed(stored, kind)

    async def _seen(self) -> None:
        """Wait until kube-scheduler has seen all nodes, pods and storage objects."""
        nodes = [key_of(obj) for obj in self._objects.values() if obj["kind"] == "Node"]
        pods = [obj for obj in self._objects.values() if obj["kind"] == "Pod"]

        def has_all() -> bool:
            return all(self._saw("Add node", node) for node in nodes) and all(
                self._saw(
                    f"{'Delete' if _is_finished(pod) else 'Add'} {_state(pod)} pod", key_of(pod)
                )
                and self._log.seen[(f"Update {_state(pod)} pod", key_of(pod))]
                >= self._expected[f"update {key_of(pod)}"]
                for pod in pods
            )

        await self._until(has_all, "nodes and pods to be seen")
        await self._counts_reached()
        for pod in pods:
            del self._expected[f"update {key_of(pod)}"]

    async def _counts_reached(self) -> None:
        """Wait until the metrics have counted the storage objects that came and went."""
        wanted = {name: count for name, count in self._expected.items() if name in COUNTED}
        deadline = monotonic() + PATIENCE_S
        while any(self._counted[name] < count for name, count in wanted.items()):
            self._counted = Counter(
                {name: int(n) for name, n in _HANDLED.findall(self._scheduler.get("/metrics"))}
            )
            if monotonic() > deadline:
                raise StageError(f"events not handled: {wanted} {self._counted}")
            await pause(POLL_S)
        await pause(self.settle_s)

    async def _attempt(self, pod: Manifest, key: str) -> Attempted:
        """Wait for the outcome of the pod's attempt, binding its volumes meanwhile."""
        has_volumes = any(
            "persistentVolumeClaim" in volume or "ephemeral" in volume
            for volume in pod["spec"].get("volumes", ())
        )
        deadline = monotonic() + PATIENCE_S
        while True:
            self._log.read()
            attempts = self._log.attempts.get(key)
            if attempts and (attempts[0].node or (attempts[0].error and attempts[0].has_told)):
                return attempts[0]
            if monotonic() > deadline:
                raise StageError(f"no decision about {key}: {attempts}")
            if has_volumes and attempts:
                made = await play_controller(self.api, pod)
                self._expected["PersistentVolumeAdd"] += made
            await pause(POLL_S)

    async def _told(self, pod: Manifest, attempt: Attempted) -> Outcome:
        """Return the outcome of an attempt once its consequences are in the API server."""
        key = key_of(pod)
        if attempt.node:
            await self._until(lambda: self._saw("Add scheduled pod", key), f"{key} to be bound")
            return Outcome(
                "Scheduled",
                node=attempt.node,
                feasible=attempt.feasible,
                evaluated=attempt.evaluated,
                scores=attempt.scores,
                totals=attempt.totals,
            )
        found = await self._with_condition(pod)
        status = found["status"]
        nominated = status.get("nominatedNodeName", "")
        if attempt.victims:
            await self._until(lambda: key in self._log.preempted, "the preemption to be over")
        return Outcome(
            "Unschedulable" if attempt.is_rejected else "Error",
            message=attempt.error,
            plugins=attempt.plugins,
            nominated=nominated,
            candidates={n: sorted(pods) for n, pods in attempt.candidates.items()},
            victims=sorted(attempt.candidates.get(nominated, [])) if attempt.target else [],
        )

    async def _with_condition(self, pod: Manifest) -> Manifest:
        """Return the pod when its condition says what one of its attempts says in the log."""
        path, key = path_of({**pod, "kind": "Pod"}), key_of(pod)
        deadline = monotonic() + PATIENCE_S
        while monotonic() < deadline:
            found = await self.api.expect("GET", path)
            messages = {one.get("message") for one in found["status"].get("conditions", ())}
            if messages & {attempt.error for attempt in self._log.attempts[key]}:
                return dict(found)
            await pause(POLL_S)
            self._log.read()
        raise StageError(f"no condition on {path}")

    async def _all_seen(self, events: list[tuple[str, str]]) -> None:
        await self._until(lambda: all(map(self._log.seen.get, events)), "objects to go")

    def _saw(self, event: str, key: str) -> bool:
        return self._log.seen[(event, key)] > 0

    async def _refresh(self, kind: str) -> None:
        for name in [name for name in self._objects if name.startswith(f"{kind} ")]:
            del self._objects[name]
        for obj in await self._listed(kind):
            self._objects[f"{kind} {key_of(obj)}"] = obj

    async def _listed(self, kind: str) -> list[Manifest]:
        items, _ = await self.api.list(collection(kind))
        return [_trimmed(item, kind) for item in items]

    async def _gone(self, paths: Iterable[str]) -> None:
        async def delete(path: str) -> None:
            code, answer = await self.api.request("DELETE", path, DELETION)
            if code not in {200, 202, 404}:
                raise ApiError(f"DELETE {path}: {code} {answer}")

        await self._each(delete, list(paths))

    async def _each(self, act: Callable[[Any], Awaitable[None]], items: list[Any]) -> None:
        await self.api._each(act, items)

    async def _until(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = monotonic() + PATIENCE_S
        self._log.read()
        while not is_so():
            if monotonic() > deadline:
                raise StageError(f"waited in vain for {what}")
            await pause(POLL_S)
            self._log.read()


def _in_order(objects: Iterable[Manifest]) -> list[Manifest]:
    order = list(KINDS)
    return sorted(objects, key=lambda obj: order.index(obj["kind"]))


def _is_finished(pod: Manifest) -> bool:
    return pod.get("status", {}).get("phase") in FINISHED


def _state(pod: Manifest) -> str:
    return "scheduled" if pod["spec"].get("nodeName") else "unscheduled"


def _trimmed(obj: Manifest, kind: str) -> Manifest:
    meta = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    return {**obj, "apiVersion": api_version(kind), "kind": kind, "metadata": meta}
