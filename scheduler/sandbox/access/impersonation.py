"""Impersonation, as with `kubectl --as`, and the rights that it requires.

A header names the user, others groups, uid and extra fields. For each of these the sender needs the
verb `impersonate`, on the name itself. Called by `access`, which knows the sender; nothing here
decides.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote

from scheduler.sandbox.access.rbac import Wish
from scheduler.sandbox.api.status import Object, StatusError, bad_request, failure

VERB: Final = "impersonate"
_HEADER: Final = "impersonate-"
_EXTRA: Final = f"{_HEADER}extra-"
_ACCOUNT: Final = "system:serviceaccount:"
_REVIEWS: Final = "authentication.k8s.io"


class Impersonated(NamedTuple):
    """The user to impersonate; `groups` are those in the request."""

    name: str
    groups: tuple[str, ...]
    uid: str
    extra: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def account(self) -> tuple[str, str] | None:
        """Return namespace and name of a ServiceAccount; None for other users."""
        namespace, colon, name = self.name.removeprefix(_ACCOUNT).partition(":")
        is_account = self.name.startswith(_ACCOUNT) and colon and namespace and name
        return (namespace, name) if is_account else None

    def all_groups(self) -> tuple[str, ...]:
        """Return the groups; a ServiceAccount without any gets those of every ServiceAccount."""
        if self.groups or self.account is None:
            return self.groups
        return ("system:serviceaccounts", f"system:serviceaccounts:{self.account[0]}")


def impersonated(headers: Mapping[str, str]) -> Impersonated | None:
    """Return the user to impersonate, None for a normal request; 400 for groups without a user."""
    if not any(name.startswith(_HEADER) for name in headers):
        return None
    groups = tuple(filter(None, headers.get(f"{_HEADER}group", "").split("\n")))
    extra = tuple(
        (unquote(name.removeprefix(_EXTRA)), tuple(text.split("\n")))
        for name, text in sorted(headers.items())
        if name.startswith(_EXTRA)
    )
    found = Impersonated(
        headers.get(f"{_HEADER}user", ""), groups, headers.get(f"{_HEADER}uid", ""), extra
    )
    if not found.name:
        raise bad_request(f"requested {list(groups)} without impersonating a user name")
    return found


def wishes(wanted: Impersonated) -> Iterator[Wish]:
    """Yield every right that the request requires."""
    account = wanted.account
    if account is not None:
        yield Wish(VERB, "", "serviceaccounts", *account)
    else:
        yield Wish(VERB, "", "users", "", wanted.name)
    for group in wanted.groups:
        yield Wish(VERB, "", "groups", "", group)
    if wanted.uid:
        yield Wish(VERB, _REVIEWS, "uids", "", wanted.uid)
    for key, values in wanted.extra:
        for value in values:
            yield Wish(VERB, _REVIEWS, f"userextras/{key}", "", value)


def may_not(sender: str, wish: Wish) -> StatusError:
    """Return 403 for a user without the right to impersonate."""
    where = f' in the namespace "{wish.namespace}"' if wish.namespace else " at the cluster scope"
    qualified = f"{wish.resource}.{wish.group}" if wish.group else wish.resource
    text = (
        f'{qualified} "{wish.name}" is forbidden: User "{sender}" cannot {VERB} resource '
        f'"{wish.resource}" in API group "{wish.group}"{where}'
    )
    details: Object = {"name": wish.name, "kind": wish.resource.partition("/")[0]}
    if wish.group:
        details["group"] = wish.group
    return failure(403, "Forbidden", text, details)
