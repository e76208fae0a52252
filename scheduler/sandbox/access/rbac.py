"""Role-based access control: authorize users by the roles and bindings in the store.

Members of `system:masters` may do everything, as on kube-apiserver. The built-in roles of a real
server that concern schedulers exist without being stored; a stored role of the same name replaces
them. Users who may write roles may write any: escalation is not prevented.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.sandbox.api.status import Object
from scheduler.sandbox.kinds.kinds import (
    CLUSTERROLEBINDINGS,
    CLUSTERROLES,
    ROLEBINDINGS,
    ROLES,
    Resource,
)
from scheduler.sandbox.store.store import ObjectStore

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
_ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class Wish:
    """A right to check; `resource` is `pods` or `pods/status`, without `namespace`: the cluster."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class _Grant:
    """A rule of a role that is bound to a user, within a namespace or, without one, everywhere."""

    namespace: str
    rule: Object


def _rules(text: str) -> list[Object]:
    """Return rules from lines: verbs, API group (`core` for the empty one), resources, names.

    A line that ends with a comma continues.
    """
    found: list[Object] = []
    for line in re.sub(r",\s+", ",", text).strip().splitlines():
        verbs, group, resources, *names = line.split()
        rule: Object = {
            "verbs": verbs.split(","),
            "apiGroups": ["" if group == "core" else group],
            "resources": resources.split(","),
        }
        found.append({**rule, "resourceNames": names} if names else rule)
    return found


_EVERYTHING: Final = _rules("* * *")
# As in kube-apiserver 1.36.
_BROUGHT_ALONG: Final[Mapping[str, list[Object]]] = {
    "cluster-admin": _EVERYTHING,
    "system:basic-user": _rules("""
        create authorization.k8s.io selfsubjectaccessreviews,selfsubjectrulesreviews
        create authentication.k8s.io selfsubjectreviews
    """),
    "system:auth-delegator": _rules("""
        create authentication.k8s.io tokenreviews
        create authorization.k8s.io subjectaccessreviews
    """),
    "system:volume-scheduler": _rules("""
        get,list,watch,patch,update core persistentvolumes,persistentvolumeclaims
        get,list,watch storage.k8s.io storageclasses
    """),
    "system:kube-scheduler": _rules("""
        create,patch,update core events
        create,patch,update events.k8s.io events
        create coordination.k8s.io leases
        get,list,watch,update coordination.k8s.io leases kube-scheduler
        get,list,watch,patch,update,
            create,delete,deletecollection coordination.k8s.io leasecandidates
        get,list,watch core nodes,pods,replicationcontrollers,services,
            persistentvolumeclaims,persistentvolumes,namespaces
        delete core pods
        create core bindings,pods/binding
        patch,update core pods/status
        update core pods/finalizers
        get,list,watch apps replicasets,statefulsets
        get,list,watch extensions replicasets
        get,list,watch policy poddisruptionbudgets
        create authentication.k8s.io tokenreviews
        create authorization.k8s.io subjectaccessreviews
        get,list,watch storage.k8s.io csinodes,volumeattachments,csidrivers,csistoragecapacities
        get,list,watch resource.k8s.io deviceclasses,resourceslices
        get,list,watch,patch,update,create,delete resource.k8s.io resourceclaims
        get,list,watch,patch,update resource.k8s.io resourceclaims/status
        patch,update resource.k8s.io resourceclaims/binding
    """),
}


class Rbac:
    """Authorize by the current objects in the store.

    A user's rights are cached until a role changes.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._mark: tuple[int, ...] = ()
        self._grants: dict[tuple[str, frozenset[str]], list[_Grant]] = {}

    def allows(self, name: str, groups: Sequence[str], wish: Wish) -> bool:
        """Return whether a user of these groups has the right."""
        if MASTERS in groups:
            return True
        return any(
            grant.namespace in ("", wish.namespace) and _covers(grant.rule, wish)
            for grant in self._granted(name, groups)
        )

    def rules(self, name: str, groups: Sequence[str], namespace: str) -> list[Object]:
        """Return the rules that hold for a user in a namespace."""
        if MASTERS in groups:
            return _EVERYTHING
        granted = self._granted(name, groups)
        return [grant.rule for grant in granted if grant.namespace in ("", namespace)]

    def _granted(self, name: str, groups: Sequence[str]) -> list[_Grant]:
        kinds = (ROLES, CLUSTERROLES, ROLEBINDINGS, CLUSTERROLEBINDINGS)
        mark = tuple(self._store.collection(kind).version for kind in kinds)
        if mark != self._mark:
            self._mark = mark
            self._grants.clear()
        key = (name, frozenset((*groups, AUTHENTICATED)))
        found = self._grants.get(key)
        if found is None:
            found = self._grants[key] = list(self._find(*key))
        return found

    def _find(self, name: str, groups: frozenset[str]) -> Iterator[_Grant]:
        for rule in _BROUGHT_ALONG["system:basic-user"]:
            yield _Grant("", rule)
        for binding in self._objects(CLUSTERROLEBINDINGS):
            if _is_subject(binding, name, groups):
                for rule in self._role(binding, ""):
                    yield _Grant("", rule)
        for binding in self._objects(ROLEBINDINGS):
            if _is_subject(binding, name, groups):
                namespace = str(binding["metadata"]["namespace"])
                for rule in self._role(binding, namespace):
                    yield _Grant(namespace, rule)

    def _role(self, binding: Object, namespace: str) -> list[Object]:
        """Return the rules of the role of a binding; none if it is missing."""
        reference = binding.get("roleRef") or {}
        name = str(reference.get("name", ""))
        if reference.get("kind") == "Role":
            stored = self._store.collection(ROLES).items.get(f"{namespace}/{name}")
        else:
            stored = self._store.collection(CLUSTERROLES).items.get(name)
            if stored is None:
                return _BROUGHT_ALONG.get(name, [])
        return [] if stored is None else list(stored.obj.get("rules") or [])

    def _objects(self, resource: Resource) -> Iterator[Object]:
        for stored in self._store.collection(resource).items.values():
            yield stored.obj


def _is_subject(binding: Object, name: str, groups: frozenset[str]) -> bool:
    for subject in binding.get("subjects") or []:
        kind, called = subject.get("kind"), subject.get("name")
        if kind == "User" and called == name:
            return True
        if kind == "Group" and called in groups:
            return True
        if kind == "ServiceAccount":
            namespace = subject.get("namespace") or binding["metadata"].get("namespace", "")
            if name == f"system:serviceaccount:{namespace}:{called}":
                return True
    return False


def _covers(rule: Object, wish: Wish) -> bool:
    names = rule.get("resourceNames") or ()
    return (
        _has(rule.get("verbs"), wish.verb)
        and _has(rule.get("apiGroups"), wish.group)
        and _has_resource(rule.get("resources"), wish.resource)
        and (not names or wish.name in names)
    )


def _has(values: Sequence[str] | None, wanted: str) -> bool:
    return values is not None and (_ALL in values or wanted in values)


def _has_resource(values: Sequence[str] | None, wanted: str) -> bool:
    """Return whether `*` or a listed value covers a resource; `*/status` covers the status of every
    resource.
    """
    if _has(values, wanted):
        return True
    _, slash, subresource = wanted.partition("/")
    return bool(slash) and f"*/{subresource}" in (values or ())
