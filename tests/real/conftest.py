"""Fixtures of the tests that run a whole scheduler on a real control plane."""

import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from scheduler.sandbox.kinds.kinds import RELEASES
from scheduler.sandbox.nodes.shape import plain_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from tests.apiserver.realcluster import Reachable, RealCluster, keep_logs, start_cluster
from tests.real.audit import Audit
from tests.real.schedulers import ROOT, Scheduler, under_test

REPORTS = ROOT / "build" / "reports"


@pytest.fixture
def scheduler() -> Scheduler:
    """Give the scheduler under test."""
    return under_test()


@pytest.fixture
def audit(tmp_path: Path) -> Audit:
    """Give the audit log of `audited_cluster`."""
    return Audit(tmp_path)


@pytest.fixture
def audited_cluster(audit: Audit, request: pytest.FixtureRequest) -> Iterator[RealCluster]:
    """Return an empty control plane whose writes are in the audit log."""
    name = request.node.name[:40]
    failed_before = request.session.testsfailed
    with start_cluster(audit.flags, name=name) as cluster:
        yield cluster
        if request.session.testsfailed > failed_before:
            keep_logs(cluster.folder, name)


@pytest.fixture
def report(scheduler: Scheduler) -> Callable[[str, Any], Path]:
    """Return a function that writes measured values as JSON and states the file."""

    def write(name: str, values: Any) -> Path:
        REPORTS.mkdir(parents=True, exist_ok=True)
        file = REPORTS / f"{name}-{scheduler.name}.json"
        file.write_text(json.dumps(values, indent=2) + "\n")
        print(f"\n{json.dumps(values)}\nwritten to {file}")
        return file

    return write


class Sandboxed(NamedTuple):
    """A sandbox, as clients find it."""

    url: str
    folder: Path
    ca_file: Path
    kubeconfig: Path
    scheduler_kubeconfig: Path


@pytest.fixture(params=["sandbox", pytest.param("real", marks=pytest.mark.real)])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Reachable]:
    """Return a server for one test alone."""
    if request.param == "real":
        yield request.getfixturevalue("own_real_cluster")
        return
    async with sandboxed(tmp_path) as found:
        yield found


@asynccontextmanager
async def sandboxed(tmp_path: Path, release: str = RELEASES[0]) -> AsyncIterator[Sandboxed]:
    """Give a sandbox without nodes."""
    kubeconfig = tmp_path / "kubeconfig"
    options = SandboxOptions(shape=plain_shape(0), kubeconfig=kubeconfig, release=release)
    async with Sandbox(options) as sandbox:
        config = yaml.safe_load(kubeconfig.read_text())
        authority = tmp_path / "ca.crt"
        data = config["clusters"][0]["cluster"]["certificate-authority-data"]
        authority.write_bytes(base64.b64decode(data))
        yield Sandboxed(sandbox.url, tmp_path, authority, kubeconfig, kubeconfig)
