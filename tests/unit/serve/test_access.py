"""Access as in kube-scheduler, by the API server's reviews, kept for ten seconds."""

import asyncio
import json
from typing import Any

import pytest
import structlog
from aiohttp import ClientSession, TCPConnector

from scheduler.base.clock import ManualClock
from scheduler.base.errors import ApiError
from scheduler.base.meters import Meters
from scheduler.serve.access import CACHE_SIZE, TTL_S, AccessRequest, RequestAuthorizer
from scheduler.serve.rules import IN_FLIGHT
from tests.unit.serve.conftest import PAGES, ServerRig

HEALTH = ("/healthz", "/livez", "/readyz")


async def test_unprivileged_users_get_403_except_for_health(rig: ServerRig):
    """Without credentials the user is system:anonymous, also for paths that do not exist."""
    async with rig.serving() as visitor:
        for path in PAGES:
            status, headers, text = await visitor.get(path)

            assert 403 == status, path
            assert "application/json" == headers["Content-Type"]
            assert json.loads(text) == {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": f'forbidden: User "system:anonymous" cannot get path "{path}"',
                "reason": "Forbidden",
                "code": 403,
            }
    asked = rig.reviewer.asked[0]
    assert set(rig.reviewer.kinds()) == {"SubjectAccessReview"}
    assert asked["spec"]["groups"] == ["system:unauthenticated"]


async def test_unprivileged_users_may_what_the_cluster_grants(rig: ServerRig):
    """A cluster that opens /metrics to anonymous users is obeyed."""
    rig.reviewer.allowed.add(("system:anonymous", "get", "/metrics"))
    async with rig.serving() as visitor:
        await visitor.page("/metrics")


async def test_unknown_token_is_401(rig: ServerRig):
    """A token unknown to the API server is refused with 401, and reviewed once."""
    async with rig.serving() as visitor:
        visitor.token = "stolen"
        for _ in range(3):
            status, _, text = await visitor.get("/metrics")

            assert 401 == status
            assert "Unauthorized" == json.loads(text)["reason"]
    assert ["TokenReview"] == rig.reviewer.kinds()


async def test_reviews_have_the_form_of_the_api(rig: ServerRig):
    """Both reviews have the fields of authentication.k8s.io and authorization.k8s.io."""
    rig.reviewer.users["good"]["extra"] = {"scopes": ["a", "b"]}
    async with rig.serving() as visitor:
        visitor.token = "good"
        await visitor.page("/metrics?x=1")

    assert rig.reviewer.asked == [
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "metadata": {},
            "spec": {"token": "good"},
        },
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": {
                "user": "eve",
                "groups": ["system:authenticated"],
                "uid": "7",
                "extra": {"scopes": ["a", "b"]},
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            },
        },
    ]


async def test_answers_are_kept_for_ten_seconds(rig: ServerRig):
    """Within the time no review is sent again; after it a revoked right is noticed."""
    async with rig.serving() as visitor:
        visitor.token = "good"
        await visitor.page("/metrics")
        rig.clock.advance(TTL_S - 0.1)
        rig.reviewer.allowed.clear()
        await visitor.page("/metrics")
        assert 2 == len(rig.reviewer.asked)

        rig.clock.advance(0.2)
        assert 403 == (await visitor.get("/metrics"))[0]
        rig.clock.advance(TTL_S)
        rig.reviewer.users.clear()
        assert 401 == (await visitor.get("/metrics"))[0]


async def test_rights_are_per_verb_and_path(rig: ServerRig):
    """A user who may get a page may not put to it, and sees no other page."""
    rig.reviewer.allowed = {("eve", "get", "/metrics"), ("eve", "get", "/debug/flags/v")}
    async with rig.serving() as visitor:
        visitor.token = "good"
        await visitor.page("/metrics")

        assert 403 == (await visitor.get("/metrics/slis"))[0]
        assert 403 == (await visitor.get("/debug/flags/v", method="PUT", data="4"))[0]
        assert 405 == (await visitor.get("/debug/flags/v"))[0]
    assert [] == rig.verbosity


@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        ("Bearer good", 200),
        ("bearer   good  ", 200),
        ("Bearer", 403),
        ("Bearer ", 403),
        ("Basic Z29vZA==", 403),
        ("good", 403),
        ("Bearer good extra", 401),
        ("Bearer \xe4", 401),
    ],
)
async def test_forms_of_the_header(rig: ServerRig, authorization: str, expected: int):
    """Only `Bearer <token>` is a credential; any other form counts as none."""
    async with rig.serving() as visitor:
        headers = {"Authorization": authorization}

        assert expected == (await visitor.get("/metrics", headers=headers))[0]


async def test_a_failed_review_denies_access_and_is_not_cached(rig: ServerRig, logged: Any):
    """A fault of the API server is 401 or 500; the next request is reviewed again; no token is
    logged.
    """
    rig.reviewer.fault = RuntimeError('POST {"spec": {"token": "good"}} failed')
    async with rig.serving() as visitor:
        visitor.token = "good"
        assert 401 == (await visitor.get("/metrics"))[0]
        rig.reviewer.fault = None
        await visitor.page("/metrics")

        rig.reviewer.fault = RuntimeError("down")
        status, _, text = await visitor.get("/metrics/slis")
        assert 500 == status
        assert "down" not in text
        rig.reviewer.fault = None
        await visitor.page("/metrics/slis")
    assert "good" not in str(logged)
    assert 1 == rig.meters.access_reviews.labels("TokenReview", "error").value
    assert 1 == rig.meters.access_reviews.labels("SubjectAccessReview", "error").value


@pytest.mark.parametrize(
    "status",
    [
        None,
        [],
        {},
        {"authenticated": "yes", "user": {"username": "eve"}},
        {"authenticated": True},
        {"authenticated": True, "user": {"username": ""}},
        {"authenticated": True, "user": {"username": 7}},
    ],
)
async def test_odd_answers_are_no_proof(rig: ServerRig, status: object):
    """Only a response of the right form with a name grants access."""

    async def review(body: dict[str, Any]) -> dict[str, Any]:
        if body["kind"] == "TokenReview":
            return {"status": status}
        return {"status": {"allowed": True}}

    rig.reviewer = review  # type: ignore[assignment]
    async with rig.serving() as visitor:
        visitor.token = "good"

        assert 401 == (await visitor.get("/metrics"))[0]


async def test_client_certificate_names_user_and_groups(rig: ServerRig):
    """A certificate of the accepted authority is enough; its organisations are the groups."""
    rig.reviewer.allowed.add(("ann", "get", "/metrics"))
    files = rig.authority.user("ann", "dev", "ops")
    rig.files = rig.files._replace(client_ca=str(rig.authority.file))
    async with rig.serving() as visitor:
        assert 403 == (await visitor.get("/metrics"))[0]

        context = rig.authority.trust()
        context.load_cert_chain(files.certificate, files.key)
        async with (
            ClientSession(connector=TCPConnector(ssl=context)) as session,
            session.get(visitor.url + "/metrics") as answer,
        ):
            assert 200 == answer.status
    spec = rig.reviewer.asked[-1]["spec"]
    assert spec["user"] == "ann"
    assert sorted(spec["groups"]) == ["dev", "ops", "system:authenticated"]


async def test_masters_need_no_review(rig: ServerRig):
    """system:masters has all rights, as in kube-scheduler, also while the API server is down."""
    rig.reviewer.users["root"] = {"username": "root", "groups": ["system:masters"]}
    async with rig.serving() as visitor:
        visitor.token = "root"
        await visitor.page("/metrics")
    assert ["TokenReview"] == rig.reviewer.kinds()


async def test_unknown_tokens_do_not_fill_the_memory(rig: ServerRig):
    """The number of answers kept is bounded."""
    from scheduler.serve.access import AccessRequest, RequestAuthorizer

    access = RequestAuthorizer(rig.reviewer, rig.clock, rig.meters)
    for number in range(CACHE_SIZE + 50):
        await access.check(AccessRequest("get", "/metrics", f"Bearer {number}"))

    assert CACHE_SIZE == len(access._users._entries)


async def test_flood_is_refused_while_health_answers(rig: ServerRig):
    """Requests beyond the limit get 429 at once; probes are served all the time."""
    rig.reviewer.gate = asyncio.Event()
    async with rig.serving() as visitor:
        visitor.token = "good"
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(visitor.get("/metrics")) for _ in range(IN_FLIGHT)]
            async with asyncio.timeout(60):
                while len(rig.reviewer.asked) < IN_FLIGHT:
                    await visitor.page("/healthz")
            status, headers, _ = await visitor.get("/metrics")
            assert (429, "1") == (status, headers["Retry-After"])
            rig.reviewer.gate.set()
        assert {200} == {task.result()[0] for task in waiting}
        await visitor.page("/metrics")


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (ApiError("token=secret", code=403, reason="Forbidden"), "403 Forbidden: this account may"),
        (ApiError("token=secret", code=503, reason=""), "the API server answers 503"),
        (ApiError("token=secret"), "the API server does not answer"),
        (RuntimeError("token=secret"), "RuntimeError"),
    ],
)
async def test_a_review_that_fails_says_why_and_no_token(error: Exception, reported: str):
    """The log names the cause; the header of the client is never in it."""

    async def review(_body: dict[str, Any]) -> dict[str, Any]:
        raise error

    access = RequestAuthorizer(review, ManualClock(), Meters())
    with structlog.testing.capture_logs() as logged:
        assert await access.check(AccessRequest("get", "/metrics", "Bearer secret")) is not None

    assert reported in str(logged)
    assert "secret" not in str(logged)
