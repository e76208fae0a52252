"""Least privilege: all rights of the chart's roles are used, and all requests of its programs are
allowed.

Every request of daemon, operators and agents is recorded: by the sandbox's own check, and in the
audit log of a real server. Forbidden requests of the account are tried in test_forbidden.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from scheduler.objects.kinds import KAI_GROUP, POD_GANG, POD_MIX_HISTORY, WATCHED
from scheduler.sandbox.kinds.kinds import RELEASES
from tests.apiserver.realcluster import start_cluster
from tests.e2e.chartcluster import (
    MARKS,
    RELEASE,
    Server,
    application,
    load,
    network,
    numa,
    plain,
    pod_groups,
    sakkara,
    six_nodes,
)
from tests.e2e.chartparts import (
    TOKEN_SECRET,
    bandwidth_agent,
    composite_groups,
    kueue,
    load_agent,
    measured,
    measured_by_prometheus,
    metrics_come_and_go,
    netperf_agent,
    packed,
    provided,
    volcano,
    with_a_provider,
)
from tests.e2e.core import CORE
from tests.e2e.operatorcluster import sandbox
from tests.e2e.rights import (
    Noted,
    Right,
    audit_of_accounts,
    granted,
    noted_by,
    noted_in_sandbox,
    refused,
    unused,
)

pytestmark = MARKS
Step = Callable[[Server], Awaitable[None]]

AGENTS = [
    "agents.bandwidth.enabled=true",
    "agents.netperf.enabled=true",
    "agents.netperf.keySecret.name=key",
]
MEASURED = ["rbac.configMaps[0].namespace=default", "rbac.configMaps[0].name=latencies"]
VOLCANO = ["rbac.groups.volcano=true"]
SECRET = ["rbac.secrets[0].namespace=default", f"rbac.secrets[0].name={TOKEN_SECRET}"]


class Part(NamedTuple):
    """Values of the chart, and the actions that use the rights of these values."""

    values: list[str]
    steps: list[Step]
    config: Callable[[], str] = str


PARTS = {
    "plain": Part([], [plain]),
    "network": Part(MEASURED, [network, measured]),
    "sakkara": Part(VOLCANO, [sakkara, kueue, volcano]),
    "numa": Part([], [numa]),
    "load": Part(["agents.load.enabled=true"], [metrics_come_and_go, load, load_agent]),
    "all": Part(
        [*AGENTS, *MEASURED, *VOLCANO],
        [network, measured, sakkara, kueue, volcano, numa, bandwidth_agent],
    ),
    "own": Part(
        [*SECRET, *MEASURED, *VOLCANO],
        [
            provided,
            network,
            measured,
            measured_by_prometheus,
            sakkara,
            kueue,
            volcano,
            numa,
            metrics_come_and_go,
            packed,
        ],
        with_a_provider,
    ),
}
# A real server alone writes parameters of a claim anew when it is patched, so that they must be put
# back.
PUT_BACK = {("get", "resourceclaims"), ("update", "resourceclaims")}
# The API server reviews itself whether a client may allocate; that is no request of its own.
ASKED_INSIDE = {("patch", "resourceclaims/binding")}
# A pod is read after a bind that was not answered: tests/faults and tests/chaos lose answers.
UNANSWERED = {("get", "pods")}
# The daemon looks for all kinds that it knows, as definitions may come later and the configuration
# change; those of parts that are off are refused, which is as good to it as not being there.
LOOKED_FOR = {
    ("list", kind.group, kind.plural)
    for kind in WATCHED
    if not kind.required and kind is not POD_MIX_HISTORY
}
# Groups of KAI and Grove, which no profile reads unless a value of the chart allows it.
BY_VALUE = {("list", kind.group, kind.plural) for kind in (KAI_GROUP, POD_GANG)}


# Served since Kubernetes 1.37: rights on them are tested separately.
LATER = {(verb, "compositepodgroups") for verb in ("list", "watch")}
LATER |= {("patch", "compositepodgroups/status")}
LATER |= {(verb, "devicetaintrules") for verb in ("list", "watch")}


@asynccontextmanager
async def opened(
    kind: str, folder: Path, release: str = RELEASES[0]
) -> AsyncIterator[tuple[Server, Noted]]:
    """Open a server of six nodes that records the requests of accounts.

    A later release exists only as a sandbox.
    """
    async with AsyncExitStack() as stack:
        if kind == "sandbox":
            noted = stack.enter_context(noted_in_sandbox())
            kubeconfig = await stack.enter_async_context(sandbox(folder, release))
        else:
            audit = audit_of_accounts(folder)
            kubeconfig = stack.enter_context(start_cluster(audit.flags, "rights")).kubeconfig
            noted = noted_by(audit)
        yield await stack.enter_async_context(six_nodes(kubeconfig, folder)), noted


async def rights_of(server: Server) -> set[Right]:
    """Return the rights of the roles of the release."""
    manifest = yaml.safe_load_all(await server.helm("get", "manifest", RELEASE))
    return granted([one for one in manifest if one])


def asked_of(noted: Noted) -> set[str]:
    """Return the resources in the requests of a subject."""
    return {request.asked.resource for request in noted()}


@pytest.mark.parametrize("profile", PARTS)
@pytest.mark.parametrize("kind", [pytest.param("sandbox", marks=pytest.mark.long), "real"])
async def test_every_right_is_needed_and_none_is_missing(kind: str, profile: str, tmp_path: Path):
    """Each part of the chart works, and needs the rights of its roles for it."""
    part = PARTS[profile]
    config = part.config()
    values = part.values if config else [f"profile={profile}", *part.values]
    async with opened(kind, tmp_path) as (server, noted):
        await server.chart("install", *values, config=config)
        rights = await rights_of(server)
        async with server.daemon():
            for step in (*part.steps, pod_groups, application, *CORE):
                await step(server)
            if profile == "all":
                async with netperf_agent(server):
                    await server.until("/version", lambda _: "endpointslices" in asked_of(noted))
        requests = noted()
    missing = {
        right
        for right in refused(requests)
        if (right.verb, right.group, right.resource)
        not in (BY_VALUE if profile in ("all", "own") else LOOKED_FOR)
    }

    assert [] == sorted(map(str, missing))
    spared = LATER | UNANSWERED | (PUT_BACK if kind == "sandbox" else ASKED_INSIDE)
    idle = {one for one in unused(rights, requests) if (one.verb, one.resource) not in spared}
    assert [] == sorted(map(str, idle))


@pytest.mark.long
async def test_rights_on_what_the_next_release_serves(tmp_path: Path):
    """Composite groups are read, and their status is written; there is no other request."""
    async with opened("sandbox", tmp_path, RELEASES[1]) as (server, noted):
        await server.chart("install", "profile=sakkara")
        rights = await rights_of(server)
        async with server.daemon():
            await composite_groups(server)
        requests = noted()
    about = {one for one in rights if (one.verb, one.resource) in LATER}

    assert len(LATER) == len(about)
    assert set() == unused(about, requests)
    assert [] == [str(one) for one in refused(requests) if "podgroups" in one.resource]
