"""Fixtures of the tests that run a whole scheduler on a real control plane."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.realcluster import RealCluster, keep_logs, start_cluster
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
    """Give an empty control plane of one's own whose writes are in the audit log."""
    name = request.node.name[:40]
    failed_before = request.session.testsfailed
    with start_cluster(audit.flags, name=name) as cluster:
        yield cluster
        if request.session.testsfailed > failed_before:
            keep_logs(cluster.folder, name)


@pytest.fixture
def report(scheduler: Scheduler) -> Callable[[str, Any], Path]:
    """Give what writes measured values as JSON and tells where."""

    def write(name: str, values: Any) -> Path:
        REPORTS.mkdir(parents=True, exist_ok=True)
        file = REPORTS / f"{name}-{scheduler.name}.json"
        file.write_text(json.dumps(values, indent=2) + "\n")
        print(f"\n{json.dumps(values)}\nwritten to {file}")
        return file

    return write
