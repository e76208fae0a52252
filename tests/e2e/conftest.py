"""Fixtures: a server with a namespace for the test, on the sandbox and on a real kube-apiserver."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from scheduler.sandbox.nodes.shape import plain_shape
from scheduler.sandbox.sandbox import Sandbox, SandboxOptions
from tests.e2e.livecluster import LiveCluster, entered


@pytest.fixture(params=["sandbox", pytest.param("real", marks=pytest.mark.real)])
def kubeconfig(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the kubeconfig of the server; that of a sandbox is written when it starts.

    A module that sets `OWN_CLUSTER` gets a server without objects of other tests.
    """
    if request.param == "real":
        own = getattr(request.module, "OWN_CLUSTER", False)
        cluster = request.getfixturevalue("own_real_cluster" if own else "real_cluster")
        found: Path = cluster.kubeconfig
        return found
    return tmp_path / "kubeconfig"


@pytest.fixture
async def cluster(kubeconfig: Path, tmp_path: Path) -> AsyncIterator[LiveCluster]:
    """Give a server and a namespace on it."""
    async with AsyncExitStack() as stack:
        if kubeconfig.is_relative_to(tmp_path):
            options = SandboxOptions(shape=plain_shape(0), kubeconfig=kubeconfig)
            await stack.enter_async_context(Sandbox(options))
        yield await stack.enter_async_context(entered(kubeconfig))
