"""Rights of accounts by the roles of a release, compared with their requests on a server.

A right is as small as possible: one verb on one resource, and one name where the role names it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scheduler.sandbox.access.rbac import Rbac, Wish
from tests.real.audit import Audit, Json

ACCOUNTS = "system:serviceaccount:"


class Right(NamedTuple):
    """One right of a user; without `namespace` in all namespaces, without `name` on all names."""

    user: str
    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f" {self.namespace or '*'}/{self.name or '*'}"
        what = ".".join(filter(None, (self.resource, self.group)))
        return f"{self.user.rpartition(':')[2]}: {self.verb} {what}{where}"

    def covers(self, asked: "Right") -> bool:
        """Return whether a request needs this right."""
        return (
            self[:4] == asked[:4]
            and self.namespace in ("", asked.namespace)
            and self.name in ("", asked.name)
        )


class Request(NamedTuple):
    """A request, and whether roles allow it."""

    asked: Right
    allowed: bool


Noted = Callable[[], list[Request]]


@contextmanager
def noted_in_sandbox() -> Iterator[Noted]:
    """Record the requests of accounts to sandboxes in this process."""
    noted: list[Request] = []
    decide = Rbac.allows

    def allows(rbac: Rbac, name: str, groups: Any, wish: Wish) -> bool:
        allowed = decide(rbac, name, groups, wish)
        if name.startswith(ACCOUNTS):
            right = Right(name, wish.verb, wish.group, wish.resource, wish.namespace, wish.name)
            noted.append(Request(right, allowed))
        return allowed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Rbac, "allows", allows)
        yield lambda: noted


def audit_of_accounts(folder: Path) -> Audit:
    """Return an audit log of all requests of ServiceAccounts."""
    return Audit(folder, {"userGroups": ["system:serviceaccounts"]})


def noted_by(audit: Audit) -> Noted:
    """Return a reader of the requests of accounts from an audit log."""
    return lambda: [_request(entry) for entry in audit.entries() if "objectRef" in entry]


def _request(entry: Json) -> Request:
    ref = entry["objectRef"]
    resource = "/".join(filter(None, (ref.get("resource"), ref.get("subresource"))))
    right = Right(
        entry["user"]["username"],
        entry["verb"],
        ref.get("apiGroup", ""),
        resource,
        ref.get("namespace", ""),
        ref.get("name", ""),
    )
    decision = entry.get("annotations", {}).get("authorization.k8s.io/decision")
    return Request(right, decision == "allow")


def granted(documents: list[Json]) -> set[Right]:
    """Return the rights that the roles among these objects grant, by subject."""
    roles = {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one["rules"]
        for one in documents
        if one["kind"] in ("Role", "ClusterRole")
    }
    found: set[Right] = set()
    for one in documents:
        if one["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        namespace = one["metadata"].get("namespace", "")
        kind, name = one["roleRef"]["kind"], one["roleRef"]["name"]
        rules = roles.get((kind, namespace if kind == "Role" else "", name), ())
        for subject in one["subjects"]:
            user = f"{ACCOUNTS}{subject['namespace']}:{subject['name']}"
            for rule in rules:
                found |= set(_rights(user, namespace, rule))
    return found


def _rights(user: str, namespace: str, rule: Json) -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames") or ("",):
                    yield Right(user, verb, group, resource, namespace, name)


def refused(requests: list[Request]) -> set[Right]:
    """Return the requests that were not allowed."""
    return {request.asked for request in requests if not request.allowed}


def unused(rights: set[Right], requests: list[Request]) -> set[Right]:
    """Return the rights that no request needed."""
    asked = {request.asked for request in requests}
    return {right for right in rights if not any(map(right.covers, asked))}
