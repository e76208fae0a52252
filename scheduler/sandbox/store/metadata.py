"""The rules for `metadata` of every kind: names, uids, times, versions, finalizers.

The store calls these on its own copy of an object before it commits; they change that copy only.
Kind-specific rules are in `defaults.py` and its neighbours.
"""

import random
import re
import uuid
from typing import Final

from scheduler.sandbox.api import status
from scheduler.sandbox.kinds.kinds import RELEASES, Resource

_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_MAX_GENERATED: Final = 58
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation "
    "is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and "
    "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation "
    "is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_OWNER_PARTS: Final = {
    "apiVersion": "version must not be empty",
    "kind": "must not be empty",
    "name": "must not be empty",
    "uid": "must not be empty",
}
_OWNER_ORDER: Final = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_LABEL_KINDS: Final = frozenset({"Namespace", "Service"})
_PATH_KINDS: Final = frozenset({"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"})


def fill_new(obj: status.Object, now: str, source: random.Random) -> None:
    """Set the metadata of a new object: generated name, uid and creation time."""
    meta = obj["metadata"]
    if meta.get("generateName") and not meta.get("name"):
        suffix = "".join(source.choices(_ALPHABET, k=5))
        meta["name"] = str(meta["generateName"])[:_MAX_GENERATED] + suffix
    meta["uid"] = str(uuid.UUID(int=source.getrandbits(128), version=4))
    meta["creationTimestamp"] = now
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"):
        meta.pop(name, None)


def check_name(resource: Resource, obj: status.Object) -> None:
    """Reject a missing or malformed name with 422."""
    meta = obj["metadata"]
    name = meta.get("name", "")
    if not name:
        cause = status.required("metadata.name", "name or generateName is required")
        raise status.invalid(resource, "", [cause])
    fault = name_fault(resource.kind, name)
    if fault:
        raise status.invalid(resource, name, [status.invalid_value("metadata.name", name, fault)])


def name_fault(kind: str, name: str) -> str:
    """Return the fault of an object name of this kind, or ''."""
    if kind in _PATH_KINDS:
        return "" if "/" not in name and "%" not in name else "may not contain '/' or '%'"
    if kind in _LABEL_KINDS:
        if len(name) > 63:
            return "must be no more than 63 characters"
        return "" if _LABEL.fullmatch(name) else _LABEL_TEXT
    if len(name) > 253:
        return "must be no more than 253 characters"
    return "" if _SUBDOMAIN.fullmatch(name) else _SUBDOMAIN_TEXT


def check_unrenamed(
    resource: Resource, new: status.Object, old: status.Object, release: str
) -> None:
    """Reject a patch that changes the identity of an object; 422."""
    sent, kept = new.get("metadata") or {}, old["metadata"]
    uid = sent.get("uid")
    if uid and uid != kept["uid"]:
        cause = status.invalid_value("metadata.uid", uid, "field is immutable")
        raise status.invalid(resource, kept["name"], _reported(cause, release))


def check_identity(resource: Resource, new: status.Object, old: status.Object) -> None:
    """Reject an update of another version (409) or another object (409)."""
    sent, kept = new["metadata"], old["metadata"]
    name = kept["name"]
    version = sent.get("resourceVersion")
    if version and version != kept["resourceVersion"]:
        raise status.stale(resource, name)
    uid = sent.get("uid")
    if uid and uid != kept["uid"]:
        raise uid_mismatch(resource, kept, uid)


def uid_mismatch(resource: Resource, meta: status.Object, sent: str) -> status.StatusError:
    """409: the precondition of a write named another uid."""
    text = f"UID in precondition: {sent}, UID in object meta: {meta['uid']}"
    return status.precondition(resource, meta["name"], meta.get("namespace", ""), text)


def check_deletion(resource: Resource, meta: status.Object, uid: str, version: str) -> None:
    """Reject the deletion of another object or version than the one named; 409."""
    if uid and uid != meta["uid"]:
        raise status.delete_precondition(
            resource,
            meta["name"],
            f"the UID in the precondition ({uid}) does not match the UID in record "
            f"({meta['uid']}). The object might have been deleted and then recreated",
        )
    if version and version != meta["resourceVersion"]:
        raise status.delete_precondition(
            resource,
            meta["name"],
            f"the ResourceVersion in the precondition ({version}) does not match the "
            f"ResourceVersion in record ({meta['resourceVersion']}). The object might have been "
            "modified",
        )


def keep_system_fields(new: status.Object, old: status.Object) -> None:
    """Copy fields that a client may leave out of an update and may never change."""
    sent, kept = new["metadata"], old["metadata"]
    for name in (
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "resourceVersion",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generateName",
    ):
        if name in kept:
            sent[name] = kept[name]
        elif name != "generateName":
            sent.pop(name, None)
    sent.pop("selfLink", None)


def _reported(cause: status.Cause, release: str) -> list[status.Cause]:
    """Return a fault of metadata as often as a release reports it.

    kube-apiserver 1.36 validates metadata twice, with the cause reported each time.
    """
    return [cause] * (2 if release == RELEASES[0] else 1)


def check_finalizers(
    resource: Resource, new: status.Object, old: status.Object, release: str
) -> None:
    """Reject finalizers added to a terminating object."""
    if "deletionTimestamp" not in old["metadata"]:
        return
    before = set(old["metadata"].get("finalizers") or ())
    added = [name for name in new["metadata"].get("finalizers") or () if name not in before]
    if added:
        shown = ", ".join(f'"{name}"' for name in added)
        cause = status.forbidden_field(
            "metadata.finalizers",
            "no new finalizers can be added if the object is being deleted, "
            f"found new finalizers []string{{{shown}}}",
        )
        raise status.invalid(resource, old["metadata"]["name"], _reported(cause, release))


def spec_changed(new: status.Object, old: status.Object) -> bool:
    """Return whether anything but metadata and status differs, which makes a new generation."""
    skip = ("metadata", "status", "apiVersion", "kind")
    keys = {key for key in (*new, *old) if key not in skip}
    return any(new.get(key) != old.get(key) for key in keys)


def owner_faults(meta: status.Object, release: str) -> list[status.Cause]:
    """Faults of `metadata.ownerReferences`; since 1.37 they name the reference by its number."""
    references = meta.get("ownerReferences") or ()
    path = "metadata.ownerReferences"
    causes = [
        status.invalid_value(f"{path}.{part}", "", text)
        if release == RELEASES[0]
        else status.required(f"{path}[{number}].{part}", "must not be empty")
        for number, reference in enumerate(references)
        for part, text in _OWNER_PARTS.items()
        if not reference.get(part)
    ]
    leading = [reference for reference in references if reference.get("controller")]
    if len(leading) > 1:
        names = [f"{reference.get('kind')}/{reference.get('name')}" for reference in leading[:2]]
        text = (
            'Only one reference can have Controller set to true. Found "true" in references for '
            + " and ".join(names)
        )
        shown = [
            {part: reference[part] for part in _OWNER_ORDER if part in reference}
            for reference in references
        ]
        causes.append(status.invalid_value("metadata.ownerReferences", status.AsJson(shown), text))
    return causes


def check_namespace(resource: Resource, obj: status.Object, namespace: str) -> None:
    """Set the request's namespace in the object; reject with 400 when they disagree."""
    meta = obj["metadata"]
    if not resource.namespaced:
        meta.pop("namespace", None)
        return
    sent = meta.get("namespace")
    if namespace and sent and sent != namespace:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    meta["namespace"] = namespace or sent or ""
    if not meta["namespace"]:
        raise status.invalid(resource, meta.get("name", ""), [_no_namespace()])


def _no_namespace() -> status.Cause:
    return status.required("metadata.namespace")
