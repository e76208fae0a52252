"""The page at its own address: with a token on loopback, elsewhere with the access of the
endpoints.
"""

import socket
import ssl

import aiohttp
import pytest

from scheduler.serve import RequestAuthorizer
from scheduler.serve.access import ReviewedUser
from scheduler.serve.feed import PageFeed
from scheduler.serve.pageroutes import Answers, PageView
from scheduler.serve.pageserver import PageServer
from tests.apiserver.processes import free_ports
from tests.unit.serve.conftest import ServerRig


async def show(user: ReviewedUser, namespace: str) -> PageView:
    """Return the user of a request."""

    async def answer(_at: object = None) -> object:
        return {"for": user.name, "in": namespace}

    answers = Answers(answer, None, None, answer, answer, None)  # type: ignore[arg-type]
    return PageView(PageFeed({"pods": {}}), answers)


def server(rig: ServerRig, host: str) -> tuple[PageServer, int]:
    (port,) = free_ports(1)
    access = RequestAuthorizer(rig.reviewer, rig.clock, rig.meters)
    return PageServer(show, access, rig.certificate(), (host, port), rig.meters), port


async def answered(url: str, **headers: str) -> tuple[int, str]:
    """Return status and text, without a check of certificates."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers, ssl=False, allow_redirects=True) as answer,
    ):
        return answer.status, await answer.text()


GOOD = {"Authorization": "Bearer good"}


async def test_on_loopback_a_token_says_what_is_seen_and_no_role_is_needed(rig: ServerRig):
    """The path is not reviewed; without a name, or with a wrong one, no data is shown."""
    page, port = server(rig, "127.0.0.1")
    await page.start()
    url = f"http://127.0.0.1:{port}"
    assert page.port == port
    for path in ("/", "/ui", "/ui/"):
        status, text = await answered(url + path)
        assert (200, True) == (status, "<title>Trellis" in text)
    assert (200, '{"for":"eve","in":"shop"}') == await answered(
        f"{url}/ui/api/plan?namespace=shop", **GOOD
    )
    assert ["TokenReview"] == rig.reviewer.kinds()
    assert 401 == (await answered(f"{url}/ui/api/plan"))[0]
    assert 401 == (await answered(f"{url}/ui/api/plan", Authorization="Bearer bad"))[0]
    foreign = {"Sec-Fetch-Site": "cross-site", **GOOD}
    assert 403 == (await answered(f"{url}/ui/api/plan", **foreign))[0]
    for path in ("/metrics", "/debug/state", "/configz"):
        assert 404 == (await answered(url + path, **GOOD))[0]
    await page.stop()
    await page.stop()


@pytest.mark.parametrize(
    ("host", "code"),
    [
        ("localhost:8080", 200),
        ("[::1]:1", 200),
        ("evil.example:10260", 421),
        ("127.0.0.1.evil", 421),
    ],
)
async def test_on_loopback_foreign_names_are_refused(rig: ServerRig, host: str, code: int):
    """A tunnel may start at any port; a foreign name for this address is another site's page."""
    page, port = server(rig, "127.0.0.1")
    await page.start()
    assert code == (await answered(f"http://127.0.0.1:{port}/ui/", Host=host))[0]
    await page.stop()


async def test_elsewhere_it_is_https_and_asks_for_access(rig: ServerRig):
    """Access is reviewed as for `/metrics`: a user without access to the path gets no data,
    regardless of other rights.
    """
    page, port = server(rig, "0.0.0.0")
    await page.start()
    url = f"https://127.0.0.1:{port}"
    with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
        await answered(f"http://127.0.0.1:{port}/ui/")
    assert 200 == (await answered(f"{url}/ui/"))[0]
    assert 403 == (await answered(f"{url}/ui/api/plan", **GOOD))[0]
    rig.clock.advance(60)
    rig.reviewer.allowed.add(("eve", "get", "/ui/api/plan"))
    assert (200, '{"for":"eve","in":""}') == await answered(f"{url}/ui/api/plan", **GOOD)
    await page.stop()


async def test_a_taken_address_is_reported_and_does_not_end_the_daemon(
    rig: ServerRig, logged: list[dict[str, str]]
):
    """Pods are placed without a page, too."""
    page, port = server(rig, "127.0.0.1")
    with socket.create_server(("127.0.0.1", port)):
        await page.start()
        assert page.port == 0
    (reported,) = [one for one in logged if one["event"] == "no page at its own address"]
    assert f"127.0.0.1:{port}" == reported["address"]
    await page.stop()


async def test_port_0_is_off(rig: ServerRig):
    """No socket listens."""
    access = RequestAuthorizer(rig.reviewer, rig.clock, rig.meters)
    page = PageServer(show, access, rig.certificate(), ("127.0.0.1", 0), rig.meters)
    await page.start()
    assert page.port == 0
    await page.stop()
