"""Role-based access control: what a user may do by the roles and bindings that the store holds.

Members of `system:masters` may do everything, as on kube-apiserver. The roles that a real server brings
along and that concern schedulers are known without standing in the store; one that is stored under
the same name counts instead. Who may write roles may write any: nobody is kept from handing out more
rights than they have.
"""

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
from scheduler.sandbox.store.store import Store

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
_ALL: Final = "*"
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("patch", "update")


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants to do; `resource` is `pods` or `pods/status`, no `namespace`: the cluster."""

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


def _rule(verbs: Sequence[str], group: str, *resources: str, names: Sequence[str] = ()) -> Object:
    found: Object = {"verbs": list(verbs), "apiGroups": [group], "resources": list(resources)}
    if names:
        found["resourceNames"] = list(names)
    return found


_EVERYTHING: Final[list[Object]] = [_rule((_ALL,), _ALL, _ALL)]
# As kube-apiserver 1.36 holds them.
_BROUGHT_ALONG: Final[Mapping[str, list[Object]]] = {
    "cluster-admin": _EVERYTHING,
    "system:basic-user": [
        _rule(
            ("create",),
            "authorization.k8s.io",
            "selfsubjectaccessreviews",
            "selfsubjectrulesreviews",
        ),
        _rule(("create",), "authentication.k8s.io", "selfsubjectreviews"),
    ],
    "system:auth-delegator": [
        _rule(("create",), "authentication.k8s.io", "tokenreviews"),
        _rule(("create",), "authorization.k8s.io", "subjectaccessreviews"),
    ],
    "system:volume-scheduler": [
        _rule((*_READ, *_WRITE), "", "persistentvolumes", "persistentvolumeclaims"),
        _rule(_READ, "storage.k8s.io", "storageclasses"),
    ],
    "system:kube-scheduler": [
        _rule(("create", *_WRITE), "", "events"),
        _rule(("create", *_WRITE), "events.k8s.io", "events"),
        _rule(("create",), "coordination.k8s.io", "leases"),
        _rule((*_READ, "update"), "coordination.k8s.io", "leases", names=["kube-scheduler"]),
        _rule(
            (*_READ, *_WRITE, "create", "delete", "deletecollection"),
            "coordination.k8s.io",
            "leasecandidates",
        ),
        _rule(
            _READ,
            "",
            "nodes",
            "pods",
            "replicationcontrollers",
            "services",
            "persistentvolumeclaims",
            "persistentvolumes",
            "namespaces",
        ),
        _rule(("delete",), "", "pods"),
        _rule(("create",), "", "bindings", "pods/binding"),
        _rule(_WRITE, "", "pods/status"),
        _rule(("update",), "", "pods/finalizers"),
        _rule(_READ, "apps", "replicasets", "statefulsets"),
        _rule(_READ, "extensions", "replicasets"),
        _rule(_READ, "policy", "poddisruptionbudgets"),
        _rule(("create",), "authentication.k8s.io", "tokenreviews"),
        _rule(("create",), "authorization.k8s.io", "subjectaccessreviews"),
        _rule(
            _READ,
            "storage.k8s.io",
            "csinodes",
            "volumeattachments",
            "csidrivers",
            "csistoragecapacities",
        ),
        _rule(_READ, "resource.k8s.io", "deviceclasses", "resourceslices"),
        _rule(
            (*_READ, *_WRITE, "create", "delete"),
            "resource.k8s.io",
            "resourceclaims",
        ),
        _rule((*_READ, *_WRITE), "resource.k8s.io", "resourceclaims/status"),
        _rule(_WRITE, "resource.k8s.io", "resourceclaims/binding"),
    ],
}


class Rbac:
    """Decides by what the store holds now; what a user was granted is kept until a role changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mark: tuple[int, ...] = ()
        self._grants: dict[tuple[str, frozenset[str]], list[_Grant]] = {}

    def allows(self, name: str, groups: Sequence[str], wish: Wish) -> bool:
        """Whether a user of these groups may do it."""
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
        """Return the rules of the role that a binding names; none where it is missing."""
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
    """`*` covers everything, `*/status` the status of every resource."""
    if _has(values, wanted):
        return True
    _, slash, subresource = wanted.partition("/")
    return bool(slash) and f"*/{subresource}" in (values or ())
