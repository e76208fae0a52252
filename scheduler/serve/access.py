"""Authentication and authorisation of requests by the API server.

A client certificate that the TLS layer accepted names the user. Otherwise a bearer token is sent to
a TokenReview; without one, the user is anonymous. A SubjectAccessReview on the path decides.
Answers are cached for a short time under a hash of the token; a failed review never is. This module
sends nothing itself: `review` does, and no other function receives a token.
"""

import asyncio
import hashlib
import re
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
import structlog

from scheduler.base.clock import Clock
from scheduler.base.errors import ApiError
from scheduler.base.meters import Meters

Review = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]

OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz"})
# The page's files: equal for all users, and a browser has no token before it loads them.
_PAGE_FILES = re.compile(r"/ui(/([a-z]+\.[a-z]+)?)?")
TTL_S = 10.0  # kube-scheduler: both answers of both reviews, allowed and denied
REVIEW_TIMEOUT_S = 10.0
CACHE_SIZE = 4096

_log = structlog.get_logger()
T = TypeVar("T")


class ReviewedUser(NamedTuple):
    """The authenticated user; `extra` is copied from the TokenReview to the SubjectAccessReview."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Any] = {}


# kube-scheduler: no review for these; the API server would allow all their requests anyway.
ALLOWED_GROUP = "system:masters"
ANONYMOUS = ReviewedUser("system:anonymous", ("system:unauthenticated",))


class AccessRequest(NamedTuple):
    """The input of a decision about access; `certificate` is the result of ssl's `getpeercert`."""

    verb: str
    path: str
    authorization: str = ""
    certificate: Mapping[str, Any] | None = None


class Refusal(NamedTuple):
    """Why a request is not served: an HTTP status with Kubernetes' reason and message."""

    code: int
    reason: str
    message: str


UNAUTHORIZED = Refusal(401, "Unauthorized", "Unauthorized")


class RequestAuthorizer:
    """Decides about requests; `review` posts a review object and returns it with its status."""

    def __init__(
        self, review: Review, clock: Clock, meters: Meters, *, ttl_s: float = TTL_S
    ) -> None:
        self._review = review
        self._meters = meters
        self._key = secrets.token_bytes(16)
        self._users: _Cache[ReviewedUser | None] = _Cache(clock, ttl_s)
        self._verdicts: _Cache[bool] = _Cache(clock, ttl_s)

    async def check(self, request: AccessRequest) -> Refusal | None:
        """Return None when the request may be served."""
        if request.path in OPEN_PATHS or _PAGE_FILES.fullmatch(request.path):
            return None
        try:
            user = await self.user(request)
        except Exception as error:  # noqa: BLE001 - any failure denies access
            _log.error("token review failed", error=_safe(error))
            return UNAUTHORIZED
        if user is None:
            return UNAUTHORIZED
        try:
            path = {"path": request.path, "verb": request.verb}
            allowed = await self.may(user, nonResourceAttributes=path)
        except Exception as error:  # noqa: BLE001 - as above
            _log.error("access review failed", user=user.name, error=_safe(error))
            message = "the access review could not be carried out"
            return Refusal(500, "InternalError", f"Internal error occurred: {message}")
        if allowed:
            return None
        message = f'forbidden: User "{user.name}" cannot {request.verb} path "{request.path}"'
        return Refusal(403, "Forbidden", message)

    async def user(self, request: AccessRequest) -> ReviewedUser | None:
        """Return the user, or None for an invalid token; errors of the review are raised."""
        by_certificate = _certificate_user(request.certificate)
        if by_certificate is not None:
            return by_certificate
        token = _bearer(request.authorization)
        if not token:
            return ANONYMOUS
        key = hashlib.blake2b(token.encode(errors="replace"), key=self._key).digest()
        if key in self._users:
            return self._users[key]
        status = await self._status_of_review(
            "TokenReview", "authentication.k8s.io/v1", {"token": token}
        )
        user = _token_user(status)
        self._count("TokenReview", allowed=user is not None)
        self._users[key] = user
        return user

    async def may(self, user: ReviewedUser, **attributes: Mapping[str, str]) -> bool:
        """Return whether a user has the right of these review attributes; errors as above."""
        if ALLOWED_GROUP in user.groups:
            return True
        spec: dict[str, Any] = {
            "user": user.name,
            "groups": list(user.groups),
            **attributes,
        }
        if user.uid:
            spec["uid"] = user.uid
        if user.extra:
            spec["extra"] = dict(user.extra)
        key = hashlib.blake2b(msgspec.json.encode(spec), key=self._key).digest()
        if key in self._verdicts:
            return self._verdicts[key]
        status = await self._status_of_review(
            "SubjectAccessReview", "authorization.k8s.io/v1", spec
        )
        allowed = status.get("allowed") is True and status.get("denied") is not True
        self._count("SubjectAccessReview", allowed=allowed)
        self._verdicts[key] = allowed
        return allowed

    async def _status_of_review(
        self, kind: str, version: str, spec: dict[str, Any]
    ) -> dict[str, Any]:
        body = {"apiVersion": version, "kind": kind, "metadata": {}, "spec": spec}
        try:
            async with asyncio.timeout(REVIEW_TIMEOUT_S):
                answer = await self._review(body)
            return dict(answer["status"])  # an answer without a status is a fault
        except Exception:  # counted, then the caller denies access
            self._meters.access_reviews.labels(kind, "error").inc()
            raise

    def _count(self, kind: str, *, allowed: bool) -> None:
        self._meters.access_reviews.labels(kind, "allowed" if allowed else "denied").inc()


class _Cache(Generic[T]):
    """Cached answers with a time limit; above the size limit the oldest are removed first."""

    def __init__(self, clock: Clock, ttl_s: float) -> None:
        self._clock = clock
        self._ttl_s = ttl_s
        self._entries: OrderedDict[bytes, tuple[float, T]] = OrderedDict()

    def __contains__(self, key: bytes) -> bool:
        entry = self._entries.get(key)
        return entry is not None and self._clock.now() < entry[0]

    def __getitem__(self, key: bytes) -> T:
        return self._entries[key][1]

    def __setitem__(self, key: bytes, value: T) -> None:
        self._entries[key] = (self._clock.now() + self._ttl_s, value)
        self._entries.move_to_end(key)
        while len(self._entries) > CACHE_SIZE:
            self._entries.popitem(last=False)


def _bearer(authorization: str) -> str:
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _certificate_user(certificate: Mapping[str, Any] | None) -> ReviewedUser | None:
    """Read the user from a verified client certificate: common name, organisations as groups."""
    if not certificate:
        return None
    fields = [pair for part in certificate.get("subject", ()) for pair in part]
    name = next((value for field, value in fields if field == "commonName"), "")
    groups = [value for field, value in fields if field == "organizationName"]
    return ReviewedUser(name, (*groups, "system:authenticated")) if name else None


def _token_user(status: Mapping[str, Any]) -> ReviewedUser | None:
    user = status.get("user")
    if status.get("authenticated") is not True or not isinstance(user, dict):
        return None
    name = user.get("username")
    if not isinstance(name, str) or not name:
        return None
    groups = tuple(user.get("groups") or ())
    return ReviewedUser(name, groups, user.get("uid") or "", user.get("extra") or {})


def _safe(error: Exception) -> str:
    """Return the cause of a failed review, without the caller's data.

    The message of a failed request may quote its body, which has the token; code and reason come
    from the API server.
    """
    if not isinstance(error, ApiError):
        return type(error).__name__
    if not error.code:
        return "the API server does not answer"
    text = f"the API server answers {error.code} {error.reason}".rstrip()
    if error.code == 403:
        text += ": this account may not create tokenreviews and subjectaccessreviews"
    return text
