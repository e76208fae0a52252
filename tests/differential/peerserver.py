"""The real cluster for the cases: create objects, make one decision at a time, remove the objects.

Follows kube-scheduler's log and metrics, so that a pod is only created when the scheduler has seen
all earlier changes. Acts as volume controller, because the cluster has none.
"""

from collections.abc import Iterable
from itertools import groupby
from time import monotonic

from tests.apiserver.patience import pause
from tests.apiserver.realcluster import KubeScheduler
from tests.differential.case import Outcome
from tests.differential.claimcontroller import claims_of, granted, make_claims, ready
from tests.differential.kinds import (
    CHANGING,
    KINDS,
    STATUS_APART,
    Manifest,
    api_version,
    collection,
    key_of,
    path_of,
)
from tests.differential.klog import Attempted
from tests.differential.sight import PATIENCE_S, POLL_S, CaseError, Sight, is_finished
from tests.differential.volumecontroller import bind_claims
from tests.real.api import MERGE, Api, ApiError

DELETION = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}


class PeerServer:
    """One API server with one kube-scheduler, which `sight` follows.

    `refused` are the API server's errors about rejected objects. `is_disturbed` states whether
    another pod was tried meanwhile: the snapshot then differs from the scheduler's state. `made`
    are the claims that were made for the last pod.
    """

    def __init__(self, api: Api, scheduler: KubeScheduler, namespaces: list[Manifest]) -> None:
        self.api = api
        self.sight = Sight(scheduler)
        self.is_disturbed = False
        self.refused: list[str] = []
        self.made: list[Manifest] = []
        self._namespaces = namespaces
        self._objects: dict[str, Manifest] = {}

    async def build(self, objects: list[Manifest]) -> None:
        """Create a case's objects and wait until kube-scheduler has seen them."""
        self.is_disturbed = False
        self.refused.clear()
        self.sight.begin()
        for _, group in groupby(_in_order(objects), key=lambda obj: obj["kind"]):
            await self.api.each(self._create, list(group))
        await self.sight.until_there(self._of("Node"), self._of("Pod"))

    async def snapshot(self) -> list[Manifest]:
        """Return all objects of the API server, without fields that only it needs."""
        for kind in CHANGING:
            if kind in {"Pod", "ResourceClaim"} or self._of(kind):
                await self._refresh(kind)
        return [*self._namespaces, *self._objects.values()]

    async def decide(self, pod: Manifest) -> tuple[Manifest, Outcome]:
        """Create `pod`, wait for kube-scheduler's decision, and return the pod as kube-scheduler
        saw it, with the decision.
        """
        self.sight.log.read()
        stored = await (self._prepared(pod) if _needs_more(pod) else self._posted(pod))
        key = key_of(stored)
        if stored["spec"].get("schedulingGates"):
            await self.sight.until(
                lambda: self.sight.saw("Add unscheduled pod", key), f"{key} to be seen"
            )
            return stored, Outcome("Gated")
        tried = len(self.sight.log.order)
        attempt = await self._attempt(stored, key)
        outcome = await self._outcome(stored, attempt)
        self.sight.log.read()
        self.is_disturbed = set(self.sight.log.order[tried:]) != {key}
        return stored, outcome

    async def remove(self, pod: Manifest) -> None:
        """Delete a pod at once and wait until kube-scheduler has seen it."""
        key = key_of(pod)
        await self._gone([path_of({**pod, "kind": "Pod"})])
        self._objects.pop(f"Pod {key}", None)
        await self._remove(self.made)
        events = ("Delete unscheduled pod", "Delete scheduled pod")
        await self.sight.until(
            lambda: any(self.sight.saw(event, key) for event in events), f"{key} to be gone"
        )

    async def clear(self) -> None:
        """Remove all objects of the case."""
        await self._refresh("Pod")
        kinds = ("Pod", "Node", *(kind for kind in reversed(KINDS) if kind not in {"Pod", "Node"}))
        for kind in kinds:
            mine = self._of(kind)
            if kind in {*CHANGING, "CSINode"} - {"Pod"}:
                mine = await self._listed(kind)
            await self._remove(mine)
            self.sight.expect(f"{kind}Delete", len(mine))
            await self.sight.until_gone(kind, mine)
        self._objects.clear()
        await self.sight.settle()

    def close(self) -> None:
        """Stop following the log."""
        self.sight.log.close()

    # ---------------------------------------------------------------------------------------

    async def _posted(self, pod: Manifest) -> Manifest:
        path = collection("Pod", pod["metadata"]["namespace"])
        self.made = []
        return _trimmed(await self.api.expect("POST", path, pod), "Pod")

    async def _prepared(self, pod: Manifest) -> Manifest:
        """Create a pod that is nominated already or has existing claims; a gate keeps it from being
        scheduled until then.
        """
        gates = pod["spec"].get("schedulingGates")
        spec = {**pod["spec"], "schedulingGates": [{"name": "example.com/prepare"}]}
        stored = await self._posted({**pod, "spec": spec})
        path = path_of(stored)
        self.made = await make_claims(self.api, stored)
        self.sight.expect("ResourceClaimAdd", len(self.made))
        await self.sight.settle()
        if node := pod.get("status", {}).get("nominatedNodeName"):
            await self.api.patch(f"{path}/status", {"status": {"nominatedNodeName": node}}, MERGE)
        if gates:
            return _trimmed(await self.api.expect("GET", path), "Pod")
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
        self.sight.expect(f"{kind}Add")
        own, key = path_of({**stored, "kind": kind}), key_of(stored)
        if status and kind in STATUS_APART:
            stored = await self.api.patch(f"{own}/status", {"status": status}, MERGE)
            self.sight.updates[key] += kind == "Pod" and not is_finished(wanted)
        if is_leaving:
            stored = await self.api.expect("DELETE", own)
            self.sight.updates[key] += kind == "Pod"
        self._objects[f"{kind} {key}"] = _trimmed(stored, kind)

    def _of(self, kind: str) -> list[Manifest]:
        return [obj for obj in self._objects.values() if obj["kind"] == kind]

    async def _attempt(self, pod: Manifest, key: str) -> Attempted:
        """Wait for the outcome of the pod's attempt, binding its volumes meanwhile."""
        has_volumes = any(
            "persistentVolumeClaim" in volume or "ephemeral" in volume
            for volume in pod["spec"].get("volumes", ())
        )
        deadline = monotonic() + PATIENCE_S
        while True:
            self.sight.log.read()
            attempts = self.sight.log.attempts.get(key)
            if attempts and (attempts[0].node or (attempts[0].error and attempts[0].is_reported)):
                return attempts[0]
            if monotonic() > deadline:
                raise CaseError(f"no decision about {key}: {attempts}")
            if pod["spec"].get("resourceClaims") and attempts:
                for claim in await claims_of(self.api, pod):
                    await ready(self.api, claim)
            if has_volumes and attempts:
                made = await bind_claims(self.api, pod)
                self.sight.expect("PersistentVolumeAdd", made)
            await pause(POLL_S)

    async def _outcome(self, pod: Manifest, attempt: Attempted) -> Outcome:
        """Return the outcome of an attempt once its consequences are in the API server."""
        key = key_of(pod)
        if attempt.node:
            await self.sight.until(
                lambda: self.sight.saw("Add scheduled pod", key), f"{key} to be bound"
            )
            return Outcome(
                "Scheduled",
                node=attempt.node,
                feasible=attempt.feasible,
                evaluated=attempt.evaluated,
                scores=attempt.scores,
                totals=attempt.totals,
                claims=await self._granted(pod),
            )
        found = await self._with_condition(pod)
        status = found["status"]
        nominated = status.get("nominatedNodeName", "")
        if self.sight.log.attempts[key][-1] is not attempt:
            # The status is that of a later attempt, for example after a claim was deallocated.
            before = pod.get("status", {}).get("nominatedNodeName", "")
            nominated = before if attempt.nominated is None else attempt.nominated
        if attempt.victims:
            await self.sight.until(
                lambda: key in self.sight.log.preempted, "the preemption to be over"
            )
        return Outcome(
            "Unschedulable" if attempt.is_rejected else "Error",
            message=attempt.error,
            plugins=attempt.plugins,
            nominated=nominated,
            candidates={n: sorted(pods) for n, pods in attempt.candidates.items()},
            victims=sorted(attempt.candidates.get(nominated, [])) if attempt.target else [],
        )

    async def _granted(self, pod: Manifest) -> list[Manifest]:
        """Return the allocations of those claims of a pod that had none before."""
        stored = await self.api.expect("GET", path_of(pod))
        return [
            granted(claim["status"]["allocation"])
            for claim in await claims_of(self.api, stored)
            if _is_allocated(claim)
            and not _is_allocated(self._objects.get(f"ResourceClaim {key_of(claim)}", {}))
        ]

    async def _with_condition(self, pod: Manifest) -> Manifest:
        """Wait until a message in the pod's conditions equals that of an attempt in
        kube-scheduler's log; return the pod.
        """
        path, key = path_of({**pod, "kind": "Pod"}), key_of(pod)
        deadline = monotonic() + PATIENCE_S
        while monotonic() < deadline:
            found = await self.api.expect("GET", path)
            messages = {one.get("message") for one in found["status"].get("conditions", ())}
            if messages & {attempt.error for attempt in self.sight.log.attempts[key]}:
                return dict(found)
            await pause(POLL_S)
            self.sight.log.read()
        raise CaseError(f"no condition on {path}")

    async def _refresh(self, kind: str) -> None:
        for name in [name for name in self._objects if name.startswith(f"{kind} ")]:
            del self._objects[name]
        for obj in await self._listed(kind):
            self._objects[f"{kind} {key_of(obj)}"] = obj

    async def _listed(self, kind: str) -> list[Manifest]:
        items, _ = await self.api.list(collection(kind))
        return [_trimmed(item, kind) for item in items]

    async def _remove(self, objects: list[Manifest]) -> None:
        for obj in objects:
            if obj["metadata"].get("finalizers"):
                # The scheduler may have taken it away itself.
                free = {"metadata": {"finalizers": None}}
                code, answer = await self.api.request(
                    "PATCH", path_of(obj), free, content_type=MERGE
                )
                if code not in {200, 404}:
                    raise ApiError(f"PATCH {path_of(obj)}: {code} {answer}")
        await self._gone([path_of(obj) for obj in objects])

    async def _gone(self, paths: Iterable[str]) -> None:
        async def delete(path: str) -> None:
            code, answer = await self.api.request("DELETE", path, DELETION)
            if code not in {200, 202, 404}:
                raise ApiError(f"DELETE {path}: {code} {answer}")

        await self.api.each(delete, list(paths))


def _needs_more(pod: Manifest) -> bool:
    """Return whether further objects are required before the pod is tried."""
    return bool(pod.get("status", {}).get("nominatedNodeName")) or any(
        "resourceClaimTemplateName" in one for one in pod["spec"].get("resourceClaims", ())
    )


def _is_allocated(claim: Manifest) -> bool:
    return bool(claim.get("status", {}).get("allocation"))


def _in_order(objects: Iterable[Manifest]) -> list[Manifest]:
    order = list(KINDS)
    return sorted(objects, key=lambda obj: order.index(obj["kind"]))


def _trimmed(obj: Manifest, kind: str) -> Manifest:
    meta = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    return {**obj, "apiVersion": api_version(kind), "kind": kind, "metadata": meta}
