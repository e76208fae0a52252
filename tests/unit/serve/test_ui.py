"""The page's server: access, headers of each response, and responses to bad queries."""

import io
import re

import aiohttp
import msgspec
import pytest

from scheduler.base.errors import InputError
from scheduler.serve.feed import PageFeed
from scheduler.serve.pageroutes import LARGEST_MANIFEST_BYTES, MOST_READERS, Answers
from scheduler.serve.ui import PageSite


async def _plan(_at):
    return {"groups": []}


async def _explain(pod, _at):
    raise InputError("no such pod", where=pod)


async def _change(change, _at):
    return {"given": change.manifests}


async def _moments():
    return {"moments": []}


async def _snapshot(at):
    return {"about": {"about": {"at": at}}}


async def _node(name, _at):
    return {"name": name}


@pytest.fixture
async def page():
    """A page with an address of its own: the address, its key, the feed."""
    feed = PageFeed({"pods": {"a/b": {}}})
    served = PageSite(feed, Answers(_plan, _explain, _change, _moments, _snapshot, _node))
    address, _, key = (await served.start()).partition("#key=")
    yield address, key, feed
    await served.stop()


@pytest.fixture
async def session():
    """A client without a key."""
    async with aiohttp.ClientSession() as made:
        yield made


@pytest.mark.parametrize("path", ["api/plan", "api/events", "api/explain?pod=a/b", "api/none"])
@pytest.mark.parametrize("key", ["", "Bearer wrong", "Bearer \u00e9"])
async def test_data_needs_the_key(page, session, path, key):
    """Other users of the machine reach the port and get no data."""
    async with session.get(page[0] + path, headers={"Authorization": key}) as answer:
        assert 401 == answer.status
        assert "a/b" not in (await answer.text()).replace(path, "")


async def test_a_foreign_name_for_our_address_is_refused(page, session):
    """A foreign page whose name resolves to 127.0.0.1 gets nothing, key or not."""
    headers = {"Host": "evil.example", "Authorization": f"Bearer {page[1]}"}
    for path in ("", "api/plan"):
        async with session.get(page[0] + path, headers=headers) as answer:
            assert 421 == answer.status


async def test_the_files_are_self_contained_and_under_a_strict_policy(page, session):
    """No inline script or style, no address of another host, and every imported module exists."""
    seen: set[str] = set()
    wanted = {"index.html"}
    while wanted - seen:
        name = min(wanted - seen)
        seen.add(name)
        async with session.get(page[0] + name) as answer:
            assert 200 == answer.status, name
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "nosniff" == answer.headers["X-Content-Type-Options"]
            text = await answer.text()
        assert set() == {
            one for one in re.findall(r"https?://[^\s\"']+", text) if "www.w3.org" not in one
        }
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
        assert not re.search(r"<script(?![^>]*src=)|<style|\son\w+=\"", text)
        wanted |= set(re.findall(r"from \"\./([a-z]+\.js)\"", text))
        wanted |= set(re.findall(r"(?:src|href)=\"([a-z]+\.[a-z]+)\"", text))
    assert {"app.js", "style.css", "icon.svg", "cluster.js", "treemap.js"} <= seen


@pytest.mark.parametrize("path", ["none.js", "../ui.py", "%2e%2e/ui.py", "__init__.py", "a/b"])
async def test_nothing_else_is_served(page, session, path):
    """Only the files of the page are served."""
    async with session.get(page[0] + path) as answer:
        assert 404 == answer.status


async def test_events_begin_with_the_whole(page, session):
    """The first event is the whole document, and the next ones are patches."""
    headers = {"Authorization": f"Bearer {page[1]}"}
    async with session.get(page[0] + "api/events", headers=headers) as answer:
        assert b"event: view\n" == await answer.content.readline()
        assert b'data: {"pods":{"a/b":{}}}\n' == await answer.content.readline()
        page[2].publish({"pods": {}})
        assert b"\n" == await answer.content.readline()
        assert b"event: patch\n" == await answer.content.readline()


async def test_there_is_a_limit_to_readers(page, session):
    """One reader too many gets a response to retry later."""
    headers = {"Authorization": f"Bearer {page[1]}"}
    opened = [
        await session.get(page[0] + "api/events", headers=headers) for _ in range(MOST_READERS)
    ]
    async with session.get(page[0] + "api/events", headers=headers) as answer:
        assert 429 == answer.status
    for one in opened:
        one.close()


async def test_invalid_requests_get_the_reason(page, session):
    """Faults of the user are reported as text; a body above the limit is refused unread."""
    headers = {"Authorization": f"Bearer {page[1]}"}
    async with session.get(page[0] + "api/explain?pod=a/c", headers=headers) as answer:
        assert (422, "a/c: no such pod") == (answer.status, (await answer.json())["message"])
    for body, code in (
        (b"{", 422),
        (b'{"other": 1}', 422),
        (msgspec.json.encode({"manifests": "x" * (LARGEST_MANIFEST_BYTES + 1)}), 422),
        (b"x" * (2 * LARGEST_MANIFEST_BYTES + 1), 413),
        (b'{"manifests": "kind: Pod"}', 200),
    ):
        async with session.post(
            page[0] + "api/whatif", headers=headers, data=io.BytesIO(body)
        ) as answer:
            assert code == answer.status
