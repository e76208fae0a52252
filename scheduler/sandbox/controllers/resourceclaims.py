"""ResourceClaims: create those of templates for pods, and release those of finished pods.

Created claims are owned by their pod and named in its status. A pod that is deleted, replaced or
finished loses its reservation; a claim without reservations releases its devices, and is deleted if
it was created for a pod. Claims of a PodGroup are created for the group, which keeps them until its
deletion. As kube-controller-manager's controller of the same name.
"""

from typing import Final

from scheduler.controlplane.claims import POD_CLAIM_NAME, claim_of_template
from scheduler.controlplane.objects import controller_of
from scheduler.sandbox.api.status import Object, StatusError
from scheduler.sandbox.controllers.events import WARNING, record
from scheduler.sandbox.controllers.ownership import is_deleted, reference_to
from scheduler.sandbox.controllers.pods import is_ended
from scheduler.sandbox.controllers.workqueue import Interest, WorkQueue
from scheduler.sandbox.kinds.kinds import (
    PODGROUPS,
    PODS,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    Resource,
)
from scheduler.sandbox.store.collection import DELETED, StoreChange, Stored
from scheduler.sandbox.store.store import Deletion, ObjectStore

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_COMPONENT: Final = "resource_claim"
_POD: Final = "pod:"
_GROUP: Final = "group:"
_CLAIM: Final = "claim:"


class ResourceClaims:
    """The controller of ResourceClaims of pods."""

    def __init__(self, store: ObjectStore) -> None:
        self.work_queue = WorkQueue()
        self._store = store
        # Template → pods and groups (by queue key) that wait for it.
        self._waiting: dict[str, set[str]] = {}

    def interests(self) -> list[Interest]:
        """Pods and PodGroups with claims, the claims, and templates that were missing."""
        return [
            (PODS, self._observe_pod),
            (PODGROUPS, self._observe_group),
            (RESOURCECLAIMS, self._observe_claim),
            (RESOURCECLAIMTEMPLATES, self._observe_template),
        ]

    def act(self, key: str, now: float) -> None:
        """Create the claims of a pod or a group, or release claims without users."""
        del now
        kind, _, name = key.partition(":")
        namespace, _, name = name.partition("/")
        resource = {_POD: PODS, _GROUP: PODGROUPS, _CLAIM: RESOURCECLAIMS}[f"{kind}:"]
        stored = self._store.find(resource, namespace, name)
        if stored is None:
            return
        if resource is RESOURCECLAIMS:
            self._tend_claim(stored)
        elif not is_deleted(stored.obj) and not (resource is PODS and is_ended(stored.obj)):
            self._tend_owner(resource, stored)

    def _observe_pod(self, change: StoreChange) -> None:
        pod, old = change.stored.obj, change.previous
        status = pod.get("status") or {}
        extended = status.get("extendedResourceClaimStatus") or {}
        if not pod["spec"].get("resourceClaims") and not extended:
            return
        if change.type == DELETED or _is_done(pod):
            for name in (*_claim_names(pod), extended.get("resourceClaimName")):
                if name:
                    self.work_queue.add(f"{_CLAIM}{change.stored.namespace}/{name}")
        elif old is None or old.obj.get("status") != status:
            self.work_queue.add(f"{_POD}{change.stored.key}")

    def _observe_group(self, change: StoreChange) -> None:
        group, old = change.stored.obj, change.previous
        if not group["spec"].get("resourceClaims"):
            return
        if change.type == DELETED:
            for name in _claim_names(group):
                self.work_queue.add(f"{_CLAIM}{change.stored.namespace}/{name}")
        elif old is None or old.obj.get("status") != group.get("status"):
            self.work_queue.add(f"{_GROUP}{change.stored.key}")

    def _observe_claim(self, change: StoreChange) -> None:
        if change.type != DELETED:
            self.work_queue.add(f"{_CLAIM}{change.stored.key}")
            return
        owner = controller_of(change.stored.obj)
        prefix = {PODS.kind: _POD, PODGROUPS.kind: _GROUP}.get(owner["kind"] if owner else "")
        if owner is not None and prefix is not None:
            self.work_queue.add(f"{prefix}{change.stored.namespace}/{owner['name']}")

    def _observe_template(self, change: StoreChange) -> None:
        if change.type != DELETED:
            for key in sorted(self._waiting.pop(change.stored.key, ())):
                self.work_queue.add(key)

    def _tend_owner(self, resource: Resource, stored: Stored) -> None:
        owner = stored.obj
        status = owner.get("status") or {}
        known = {e["name"]: e for e in status.get("resourceClaimStatuses") or ()}
        made: list[Object] = []
        of_group = self._group_entries(stored) if resource is PODS else []
        for wanted in owner["spec"].get("resourceClaims") or ():
            template = wanted.get("resourceClaimTemplateName")
            entry = known.get(wanted["name"])
            if template is None or wanted in of_group:
                continue
            if entry is not None and self._is_settled(stored, entry):
                continue
            claim = self._found(stored, wanted["name"]) or self._make(
                resource, stored, wanted, template
            )
            if claim is None:
                return
            made.append({"name": wanted["name"], "resourceClaimName": claim.name})
        if not made:
            return
        names = {entry["name"] for entry in made}
        entries = [*(e for e in known.values() if e["name"] not in names), *made]
        status = {**status, "resourceClaimStatuses": entries}
        self._store.update(resource, {**owner, "status": status}, subresource="status")

    def _group_entries(self, pod: Stored) -> list[Object]:
        """Return the entries of the pod's PodGroup: an equal entry is the group's."""
        name = (pod.obj["spec"].get("schedulingGroup") or {}).get("podGroupName")
        group = self._store.find(PODGROUPS, pod.namespace, name) if name else None
        return list(group.obj["spec"].get("resourceClaims") or ()) if group is not None else []

    def _is_settled(self, pod: Stored, entry: Object) -> bool:
        """Return whether a pod needs no claim there, or has its own."""
        name = entry.get("resourceClaimName")
        if not name:
            return True
        claim = self._store.find(RESOURCECLAIMS, pod.namespace, name)
        return claim is not None and _is_owned(claim.obj, pod)

    def _found(self, pod: Stored, name: str) -> Stored | None:
        """Return a claim that was created for the pod and not yet written to its status."""
        for claim in self._store.list(RESOURCECLAIMS, pod.namespace):
            notes = claim.obj["metadata"].get("annotations") or {}
            if notes.get(POD_CLAIM_NAME) == name and _is_owned(claim.obj, pod):
                return claim
        return None

    def _make(
        self, resource: Resource, pod: Stored, wanted: Object, template_name: str
    ) -> Stored | None:
        name = wanted["name"]
        template = self._store.find(RESOURCECLAIMTEMPLATES, pod.namespace, template_name)
        if template is None:
            queued = f"{_POD if resource is PODS else _GROUP}{pod.key}"
            self._waiting.setdefault(f"{pod.namespace}/{template_name}", set()).add(queued)
            missing = f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            self._failed(
                resource, pod, name, f'resource claim template "{template_name}": {missing}'
            )
            return None
        reference = reference_to(resource, pod.obj)
        claim = claim_of_template(pod.obj, reference, name, template.obj)
        try:
            return self._store.create(RESOURCECLAIMS, claim, pod.namespace)
        except StatusError as refused:
            self._failed(resource, pod, name, f"create ResourceClaim : {refused}")
            return None

    def _failed(self, resource: Resource, owner: Stored, name: str, reason: str) -> None:
        message = f"PodResourceClaim {name}: {reason}"
        shown = {"apiVersion": resource.api_version, "kind": resource.kind, **owner.obj}
        record(self._store, shown, _COMPONENT, "FailedResourceClaimCreation", message, WARNING)

    def _tend_claim(self, stored: Stored) -> None:
        claim = stored.obj
        status = claim.get("status") or {}
        users = status.get("reservedFor") or []
        remaining = [user for user in users if self._still_needs(stored.namespace, user)]
        protected = FINALIZER in (claim["metadata"].get("finalizers") or ())
        if len(remaining) < len(users):
            stored = self._release(stored, remaining, deallocate=protected and not remaining)
        elif protected and is_deleted(claim) and not remaining:
            stored = self._release(stored, [], deallocate=True)
        if not remaining:
            self._delete_unneeded(stored)

    def _still_needs(self, namespace: str, user: Object) -> bool:
        """Return whether a reservation is valid.

        Consumers other than pods and groups are ignored.
        """
        if (user.get("apiGroup"), user.get("resource")) == (PODGROUPS.group, PODGROUPS.plural):
            group = self._store.find(PODGROUPS, namespace, user["name"])
            return group is not None and group.uid == user["uid"]
        if user.get("apiGroup") or user.get("resource") != PODS.plural:
            return True
        pod = self._store.find(PODS, namespace, user["name"])
        return pod is not None and pod.uid == user["uid"] and not _is_done(pod.obj)

    def _release(self, stored: Stored, remaining: list[Object], *, deallocate: bool) -> Stored:
        """Write the remaining reservations of a claim.

        Without any its devices are released, and it may be deleted.
        """
        claim = stored.obj
        status = {**(claim.get("status") or {}), "reservedFor": remaining}
        if not remaining:
            del status["reservedFor"]
        if deallocate:
            for part in ("allocation", "devices"):
                status.pop(part, None)
        if status != (claim.get("status") or {}):
            stored = self._store.update(
                RESOURCECLAIMS, {**claim, "status": status}, subresource="status"
            )
        meta = stored.obj["metadata"]
        finalizers = meta.get("finalizers") or []
        if status.get("allocation") is not None or FINALIZER not in finalizers:
            return stored
        kept = {**meta, "finalizers": [name for name in finalizers if name != FINALIZER]}
        if not kept["finalizers"]:
            del kept["finalizers"]
        return self._store.update(RESOURCECLAIMS, {**stored.obj, "metadata": kept})

    def _delete_unneeded(self, stored: Stored) -> None:
        """Delete a claim that was created for a pod which will not run any more."""
        owner = controller_of(stored.obj)
        current = self._store.find(RESOURCECLAIMS, stored.namespace, stored.name)
        if (
            owner is None
            or owner["kind"] != PODS.kind
            or current is None
            or is_deleted(current.obj)
        ):
            return
        pod = self._store.find(PODS, stored.namespace, owner["name"])
        if pod is not None and (pod.uid != owner["uid"] or _is_done(pod.obj)):
            self._store.delete(RESOURCECLAIMS, stored.namespace, stored.name, Deletion())


def _is_done(pod: Object) -> bool:
    """Return whether a pod will not run any more."""
    return is_ended(pod) or (is_deleted(pod) and not pod["spec"].get("nodeName"))


def _is_owned(claim: Object, pod: Stored) -> bool:
    owner = controller_of(claim)
    return owner is not None and bool(owner["uid"] == pod.uid)


def _claim_names(pod: Object) -> list[str]:
    entries = (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    made = {entry["name"]: entry.get("resourceClaimName") for entry in entries}
    wanted = pod["spec"].get("resourceClaims") or ()
    names = [claim.get("resourceClaimName") or made.get(claim["name"]) for claim in wanted]
    return [name for name in names if name]
