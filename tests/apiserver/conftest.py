"""The `api` fixture: every case that asks for it runs on the sandbox and on a real
kube-apiserver.
"""

import itertools
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from scheduler.base.clock import RealClock
from scheduler.sandbox.access.certificates import Certificates, make_certificates
from scheduler.sandbox.api.server import ApiServer
from scheduler.sandbox.start import new_store
from tests.apiserver.api import Api, trusting
from tests.apiserver.realcluster import ADMIN_TOKEN, RealCluster

RECORDED = Path(__file__).parent / "recorded"
_numbers = itertools.count(1)


@pytest.fixture(params=["sandbox", pytest.param("real", marks=pytest.mark.real)])
def server_kind(request: pytest.FixtureRequest) -> str:
    """Which server a case runs on."""
    return str(request.param)


@pytest.fixture(scope="session")
def certificates() -> Certificates:
    """Made once: signing them is most of what a server costs to make."""
    return make_certificates(RealClock().now(), ["127.0.0.1"])


@pytest.fixture
def server(
    server_kind: str, certificates: Certificates, request: pytest.FixtureRequest
) -> ApiServer | RealCluster:
    """The server itself; made outside of the loop, since it reads files."""
    if server_kind == "real":
        found: RealCluster = request.getfixturevalue("real_cluster")
        return found
    return ApiServer(
        new_store(RealClock(), with_crds=False), token=ADMIN_TOKEN, certificates=certificates
    )


@pytest.fixture
async def api(
    server_kind: str, server: ApiServer | RealCluster, request: pytest.FixtureRequest
) -> AsyncIterator[Api]:
    """A client with a namespace of its own.

    Afterwards the transcript is held against the recording.
    """
    mark = f"c{os.getpid()}x{next(_numbers)}"
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    if isinstance(server, ApiServer):
        await server.start()
        authority, url = server.authority, server.url
    else:
        authority, url = server.ca_file.read_bytes(), server.url
    connector = aiohttp.TCPConnector(ssl=trusting(authority))
    try:
        async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
            client = Api(server_kind, url, session, f"ns-{mark}", mark)
            namespace = {"metadata": {"name": client.ns}}
            made = await client.post("namespaces", namespace, record=False)
            assert 201 == made.code
            yield client
    finally:
        if isinstance(server, ApiServer):
            await server.stop()
    # Modules of cases that only the sandbox can run say so; there is nothing to compare with.
    if getattr(request.module, "COMPARED", True):
        request.node.transcript = client.normal()


@pytest.fixture(autouse=True)
def compared(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compare the transcript of a passed case with the recorded one, or record it."""
    yield
    transcript = getattr(request.node, "transcript", None)
    if transcript is None or getattr(request.node, "failed_call", False):
        return
    file = RECORDED / f"{request.path.stem.removeprefix('test_')}.json"
    name = request.node.name.replace("sandbox-", "").replace("real-", "")
    name = name.replace("[sandbox]", "").replace("[real]", "").replace("-sandbox]", "]")
    name = name.replace("-real]", "]")
    known = json.loads(file.read_text()) if file.exists() else {}
    if os.environ.get("TRELLIS_RECORD") and request.node.get_closest_marker("real"):
        known[name] = transcript
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
        return
    assert name in known, "not recorded yet: run it on the real server with TRELLIS_RECORD=1"
    _assert_same(known[name], transcript)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """Leave a note for `compared`: a failed case has no transcript worth comparing."""
    report = yield
    if report.when == "call" and report.failed:
        item.failed_call = True  # type: ignore[attr-defined]
    return report


def _assert_same(expected: list[object], seen: list[object]) -> None:
    faults = list(_differences(expected, seen, ""))
    if faults:
        pytest.fail("the answers differ from the recorded ones:\n" + "\n".join(faults[:40]), False)


def _differences(expected: object, seen: object, path: str) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(seen, dict):
        for name in sorted({*expected, *seen}):
            where = f"{path}.{name}"
            if name not in seen:
                yield f"{where}: missing {json.dumps(expected[name])[:300]}"
            elif name not in expected:
                yield f"{where}: too much {json.dumps(seen[name])[:300]}"
            else:
                yield from _differences(expected[name], seen[name], where)
    elif isinstance(expected, list) and isinstance(seen, list):
        for index in range(max(len(expected), len(seen))):
            where = f"{path}[{index}]"
            if index >= len(seen):
                yield f"{where}: missing {json.dumps(expected[index])[:300]}"
            elif index >= len(expected):
                yield f"{where}: too much {json.dumps(seen[index])[:300]}"
            else:
                yield from _differences(expected[index], seen[index], where)
    elif expected != seen or type(expected) is not type(seen):
        yield f"{path}:\n    want {json.dumps(expected)}\n    seen {json.dumps(seen)}"
