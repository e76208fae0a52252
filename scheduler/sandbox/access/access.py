"""Authentication: bearer tokens, users, and the review APIs.

`rbac` authorizes known users: users are in `system:masters` by default and may do everything,
ServiceAccounts have the rights of their roles. A request without a token is the anonymous user, who
may only read health and version; an unknown token is 401. TokenReview and the access reviews answer
accordingly, and so do impersonating requests (`impersonation`). The server owns one `AccessControl`
per cluster.
"""

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from scheduler.base.clock import rfc3339
from scheduler.sandbox.access.impersonation import impersonated, may_not, wishes
from scheduler.sandbox.access.rbac import AUTHENTICATED, MASTERS, Rbac, Wish
from scheduler.sandbox.api.request import ResourceRequest
from scheduler.sandbox.api.status import Object, StatusError, failure
from scheduler.sandbox.kinds import kinds
from scheduler.sandbox.store.store import ObjectStore

ANONYMOUS: Final = "system:anonymous"
_ACCOUNT: Final = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class KnownUser:
    """An authenticated user."""

    name: str
    groups: tuple[str, ...] = (MASTERS,)
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def info(self) -> Object:
        """Return the user in the format of reviews."""
        groups = list(dict.fromkeys((*self.groups, AUTHENTICATED)))
        shown: Object = {"username": self.name, "groups": groups}
        if self.uid:
            shown["uid"] = self.uid
        if self.extra:
            shown["extra"] = {key: list(values) for key, values in self.extra}
        return shown


class AccessControl:
    """The tokens and rights of one cluster; tokens expire by the store's clock."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._clock = store.clock
        self._rbac = Rbac(store)
        self._users: dict[str, KnownUser] = {}
        self._names: dict[str, KnownUser] = {}
        self._ends: dict[str, float] = {}

    def add(self, token: str, user: KnownUser, end_s: float = math.inf) -> None:
        """Accept `token` for `user` until `end_s` (Unix seconds)."""
        self._users[token] = user
        self._names[user.name] = user
        self._ends[token] = end_s

    def issue(self, namespace: str, account: str, uid: str, lifetime_s: int) -> tuple[str, float]:
        """Return a new token for a ServiceAccount, and its expiry."""
        name = f"{_ACCOUNT}{namespace}:{account}"
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        token, end_s = new_token(), self._clock.now() + lifetime_s
        self.add(token, KnownUser(name, groups, uid), end_s)
        return token, end_s

    def user_of(self, headers: Mapping[str, str]) -> KnownUser | None:
        """Return the user of a request by its headers, None for anonymous; 401 for unknown tokens.

        403 when its sender may not impersonate the named user.
        """
        user = self._authenticated(headers.get("authorization", ""))
        wanted = impersonated(headers)
        if wanted is None:
            return user
        for wish in wishes(wanted):
            if user is None or not self.allows(user, wish):
                raise may_not(ANONYMOUS if user is None else user.name, wish)
        if wanted.name == ANONYMOUS:
            return None
        return KnownUser(wanted.name, wanted.all_groups(), wanted.uid, wanted.extra)

    def _authenticated(self, authorization: str) -> KnownUser | None:
        if not authorization:
            return None
        scheme, _, token = authorization.partition(" ")
        user = self.find_token(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise failure(401, "Unauthorized", "Unauthorized")
        return user

    def find_token(self, token: str) -> KnownUser | None:
        """Return the user of a token, None when it is unknown or expired, or its account was
        deleted.
        """
        user = self._users.get(token)
        if user is not None and (self._ends[token] <= self._clock.now() or self._has_gone(user)):
            del self._users[token], self._ends[token]
            return None
        return user

    def _has_gone(self, user: KnownUser) -> bool:
        """Return whether a ServiceAccount has been deleted, or replaced by another of its name."""
        if not user.uid or not user.name.startswith(_ACCOUNT):
            return False
        namespace, _, name = user.name.removeprefix(_ACCOUNT).partition(":")
        found = self._store.find(kinds.SERVICEACCOUNTS, namespace, name)
        return found is None or found.obj["metadata"]["uid"] != user.uid

    def check(self, user: KnownUser | None, call: ResourceRequest) -> KnownUser:
        """Return the user of an authorized request; 403 when the user may not do that."""
        wish = _wish(call)
        if user is None or not self._rbac.allows(user.name, user.groups, wish):
            raise _refused(ANONYMOUS if user is None else user.name, call, wish)
        return user

    def allows(self, user: KnownUser, wish: Wish) -> bool:
        """Return whether a user is authorized."""
        return self._rbac.allows(user.name, user.groups, wish)

    def binding_refusal(self, user: KnownUser, call: ResourceRequest) -> str:
        """Return why a user may not bind claims, which needs an extra right besides their status,
        or ''.
        """
        # kube-apiserver: a subresource that exists only for this check, cluster-wide.
        wish = Wish(verb_of(call), call.resource.group, f"{call.resource.plural}/binding")
        if self.allows(user, wish):
            return ""
        cluster_wide = replace(call, namespace="", name="")
        refused = _refused(user.name, cluster_wide, wish)
        return (
            "changing status.allocation or status.reservedFor requires "
            f'resource="{wish.resource}", '
            f'verb="{wish.verb}" permission: {refused}'
        )

    def rules(self, user: KnownUser, namespace: str) -> list[Object]:
        """Return the rules of a user in a namespace."""
        return self._rbac.rules(user.name, user.groups, namespace)

    def described(self, name: str, groups: Sequence[str]) -> KnownUser:
        """Return a user named in a review; known users have their groups added."""
        known = self._names.get(name)
        return KnownUser(name, (*groups, *(known.groups if known else ())))

    def review(self, resource: kinds.Resource, body: Object, user: KnownUser) -> Object:
        """Answer a review; the returned object has its status set."""
        spec = body.get("spec") or {}
        answer = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            **body,
            "metadata": body.get("metadata") or {},
        }
        answer["status"] = _REVIEWS[resource.storage](self, spec, user)
        if resource is kinds.SELFSUBJECTREVIEWS:
            answer["metadata"] = {"creationTimestamp": rfc3339(self._clock.now())}
        else:
            answer.setdefault("spec", {})
        return answer


def _token(access: AccessControl, spec: Object, _user: KnownUser) -> Object:
    found = access.find_token(str(spec.get("token", "")))
    if found is None:
        return {"user": {}, "error": "[invalid bearer token, unknown token]"}
    return {
        "authenticated": True,
        "user": found.info(),
        "audiences": ["https://kubernetes.default.svc"],
    }


def _subject(access: AccessControl, spec: Object, _user: KnownUser) -> Object:
    user = access.described(str(spec.get("user", "")), spec.get("groups") or ())
    return _decided(access, spec, user)


def _self_access(access: AccessControl, spec: Object, user: KnownUser) -> Object:
    return _decided(access, spec, user)


def _decided(access: AccessControl, spec: Object, user: KnownUser) -> Object:
    attributes = spec.get("resourceAttributes")
    if (
        attributes is None
    ):  # a path: only those who may do everything may read more than public ones
        return {"allowed": MASTERS in user.groups}
    resource, part = str(attributes.get("resource", "")), str(attributes.get("subresource", ""))
    wish = Wish(
        str(attributes.get("verb", "")),
        str(attributes.get("group", "")),
        f"{resource}/{part}" if part else resource,
        str(attributes.get("namespace", "")),
        str(attributes.get("name", "")),
    )
    return {"allowed": access.allows(user, wish)}


def _self_rules(access: AccessControl, spec: Object, user: KnownUser) -> Object:
    is_master = MASTERS in user.groups
    return {
        "resourceRules": access.rules(user, str(spec.get("namespace", ""))),
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}] if is_master else [],
        "incomplete": False,
    }


def _self_subject(_access: AccessControl, _spec: Object, user: KnownUser) -> Object:
    return {"userInfo": user.info()}


_REVIEWS: Final[dict[str, Callable[[AccessControl, Object, KnownUser], Object]]] = {
    kinds.TOKENREVIEWS.storage: _token,
    kinds.SUBJECTACCESSREVIEWS.storage: _subject,
    kinds.LOCALSUBJECTACCESSREVIEWS.storage: _subject,
    kinds.SELFSUBJECTACCESSREVIEWS.storage: _self_access,
    kinds.SELFSUBJECTRULESREVIEWS.storage: _self_rules,
    kinds.SELFSUBJECTREVIEWS.storage: _self_subject,
}


def new_token() -> str:
    """Return a random bearer token."""
    return secrets.token_urlsafe(32)


REVIEWS: Final = frozenset(_REVIEWS)


def _wish(call: ResourceRequest) -> Wish:
    resource = call.resource
    which = resource.plural + (f"/{call.subresource}" if call.subresource else "")
    return Wish(verb_of(call), resource.group, which, call.namespace, call.name)


def _refused(name: str, call: ResourceRequest, wish: Wish) -> StatusError:
    resource = call.resource
    where = f' in the namespace "{call.namespace}"' if call.namespace else " at the cluster scope"
    target = f' "{call.name}"' if call.name else ""
    text = (
        f'{resource.qualified}{target} is forbidden: User "{name}" cannot {wish.verb} resource '
        f'"{wish.resource}" in API group "{resource.group}"{where}'
    )
    details: Object = {"name": call.name} if call.name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    return failure(403, "Forbidden", text, details)


def refused_path(path: str) -> StatusError:
    """403 for a path that is no resource."""
    text = f'forbidden: User "{ANONYMOUS}" cannot get path "{path}"'
    return failure(403, "Forbidden", text, {})


def verb_of(call: ResourceRequest) -> str:
    """Return the Kubernetes verb of a request."""
    if call.method == "GET":
        if call.is_watch:
            return "watch"
        return "get" if call.name else "list"
    if call.method == "DELETE":
        return "delete" if call.name else "deletecollection"
    return {"POST": "create", "PUT": "update", "PATCH": "patch"}.get(call.method, "get")
