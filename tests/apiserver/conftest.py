"""The `api` fixture: every case that uses it runs on the sandbox and on a real kube-apiserver.

`recorded/` has the answers of Kubernetes 1.36, and of later releases for requests that 1.36 does
not serve. `recorded/1.37/` has the answers of that release that differ. `TRELLIS_RECORD=1` writes
both.
"""

import itertools
import json
import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from scheduler.base.clock import RealClock
from scheduler.base.release import V1_36, Release, read_release
from scheduler.sandbox.access.certificates import Certificates, make_certificates
from scheduler.sandbox.api.server import ApiServer
from scheduler.sandbox.kinds.kinds import RELEASES
from scheduler.sandbox.start import new_store
from tests.apiserver.api import Api, trusting
from tests.apiserver.realcluster import ADMIN_TOKEN, RealCluster, start_cluster

RECORDED = Path(__file__).parent / "recorded"
_numbers = itertools.count(1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each case on the sandbox and on a real server.

    A test whose answers differ since a release runs on the sandbox of that release too.
    """
    own = metafunc.definition.iter_markers("parametrize")
    if "server_kind" not in metafunc.fixturenames or any(
        "server_kind" in mark.args[0] for mark in own
    ):
        return
    stem, test = metafunc.definition.path.stem.removeprefix("test_"), metafunc.function.__name__
    later = [
        release
        for release in RELEASES[1:]
        if any(name.partition("[")[0] == test for name in recording(stem, release))
    ]
    real = pytest.param("real", marks=pytest.mark.real)
    metafunc.parametrize("server_kind", ["sandbox", *later, real], indirect=True)


@pytest.fixture
def server_kind(request: pytest.FixtureRequest) -> str:
    """Return the server that a case runs on; a release means the sandbox of that release."""
    return str(request.param)


@pytest.fixture(scope="session")
def certificates() -> Certificates:
    """Return certificates, made once: signing them is most of the cost of a server."""
    return make_certificates(RealClock().now(), ["127.0.0.1"])


@pytest.fixture(scope="module")
def later_cluster() -> Iterator[RealCluster]:
    """Give a real server of the release LATER."""
    with start_cluster(name="later", is_later=True) as cluster:
        yield cluster


@pytest.fixture
def server(
    server_kind: str, certificates: Certificates, request: pytest.FixtureRequest
) -> ApiServer | RealCluster:
    """The server itself; made outside of the loop, since it reads files.

    A module of cases that the release LATER alone serves names it as `RELEASE`.
    """
    own = getattr(request.module, "RELEASE", "")
    if server_kind == "real":
        found: RealCluster = request.getfixturevalue("later_cluster" if own else "real_cluster")
        return found
    release = own or (RELEASES[0] if server_kind == "sandbox" else server_kind)
    return ApiServer(
        new_store(RealClock(), with_crds=False, release=release),
        token=ADMIN_TOKEN,
        certificates=certificates,
    )


@pytest.fixture
async def api(
    server_kind: str, server: ApiServer | RealCluster, request: pytest.FixtureRequest
) -> AsyncIterator[Api]:
    """Return a client with its own namespace.

    Afterwards its transcript is compared with the recording.
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
    # Modules with cases for the sandbox alone set this mark: there is no recording to compare with.
    if getattr(request.module, "COMPARED", True):
        request.node.transcript = client.normal()
        request.node.release = (
            server.release
            if isinstance(server, RealCluster)
            else read_release(server.store.kinds.release)
        )


@pytest.fixture(autouse=True)
def compared(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compare the transcript of a passed case with the recorded one, or record it."""
    yield
    transcript = getattr(request.node, "transcript", None)
    if transcript is None or getattr(request.node, "failed_call", False):
        return
    kind = re.escape(request.node.callspec.params["server_kind"])
    name = re.sub(rf"(?<=\[){kind}-|-{kind}(?=\])|\[{kind}\]", "", request.node.name)
    stem, release = request.path.stem.removeprefix("test_"), request.node.release
    if os.environ.get("TRELLIS_RECORD") and request.node.get_closest_marker("real"):
        record(stem, name, release, transcript)
        return
    known = recording(stem, release).get(name) or recording(stem).get(name)
    assert known is not None, "not recorded yet: run it on the real server with TRELLIS_RECORD=1"
    _assert_same(known, transcript)


def _file(stem: str, release: Release | str | None) -> Path:
    """Return the file of a module's answers; without a release that of 1.36."""
    return RECORDED / (str(release) if release is not None else "") / f"{stem}.json"


def recording(stem: str, release: Release | str | None = None) -> dict[str, Any]:
    """Return the answers of a module by case: of 1.36, or those of a later release that differ."""
    file = _file(stem, release)
    return json.loads(file.read_text()) if file.exists() else {}


def record(stem: str, name: str, release: Release, transcript: list[Any]) -> None:
    """Write the answers of a case: of a later release only if they differ from those of 1.36."""
    known = recording(stem)
    if release <= V1_36 or name not in known:
        _write(_file(stem, None), {**known, name: transcript})
        return
    own = {each: found for each, found in recording(stem, release).items() if each != name}
    if known[name] != transcript:
        own[name] = transcript
    _write(_file(stem, release), own)


def _write(file: Path, found: dict[str, Any]) -> None:
    """Write a file of answers; remove it if there are none."""
    if found:
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    else:
        file.unlink(missing_ok=True)


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
