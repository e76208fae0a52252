"""`trellis status`: the leader, its configuration, kinds and rights, and its problems.

Read from the Lease, from the API server's lists of kinds, and from pods. Exit code 1 if there is a
problem.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import msgspec

from scheduler.about import VERSION
from scheduler.base.errors import TrellisError
from scheduler.base.text import closest
from scheduler.cli.commands import StatusFlags
from scheduler.cli.inputs import cmdio
from scheduler.cli.inputs.access import ClusterOptions
from scheduler.cli.inputs.clusterflags import cluster_options
from scheduler.cli.inputs.leader import Leader, leader
from scheduler.cli.inputs.live import connect
from scheduler.cli.inputs.running import running_setup
from scheduler.cli.inputs.source import SnapshotSource, read_source
from scheduler.cli.output.printing import show_table
from scheduler.config import Loaded, default_config, load
from scheduler.config.fingerprint import fingerprint
from scheduler.config.presets import PRESETS
from scheduler.framework.registry import Registry
from scheduler.intree import registry
from scheduler.kube.connection.client import ApiClient
from scheduler.kube.connection.version import server_version
from scheduler.simulate.records import API_VERSION
from scheduler.simulate.stage import AnswerOptions
from scheduler.snapshot.snapshot import Snapshot

OK, NOTICE, PROBLEM, MISSING = "ok", "notice", "problem", "missing"
# Kinds that a cluster may lack, with the purpose of each.
_KINDS = {
    "/apis/scheduling.k8s.io/v1alpha2": ("podgroups", "PodGroups of Kubernetes 1.36"),
    "/apis/scheduling.k8s.io/v1beta1": ("podgroups", "PodGroups of Kubernetes 1.37"),
    "/apis/scheduling.x-k8s.io/v1alpha1": ("podgroups", "PodGroups of scheduler-plugins"),
    "/apis/scheduling.volcano.sh/v1beta1": ("podgroups", "PodGroups of Volcano"),
    "/apis/scheduling.run.ai/v2alpha2": ("podgroups", "PodGroups of KAI"),
    "/apis/scheduler.grove.io/v1alpha1": ("podgangs", "PodGangs of Grove"),
    "/apis/resource.k8s.io/v1": ("resourceclaims", "devices (DRA)"),
    "/apis/appgroup.diktyo.x-k8s.io/v1alpha1": ("appgroups", "applications on a network"),
    "/apis/topology.node.k8s.io/v1alpha2": ("noderesourcetopologies", "NUMA zones"),
}
# The rights that explain, groups, capacity and simulate need; the daemon has rights of its own
# account.
_RIGHTS = ("nodes", "pods")


class StatusLine(msgspec.Struct, frozen=True):
    """One check: `state` is ok, notice, problem or missing."""

    what: str
    state: str
    text: str


def status(flags: StatusFlags) -> int:
    """Show leader, version, configuration, kinds, rights and problems."""
    cmdio.be_quick()
    access = cluster_options(flags.cluster)
    lines = asyncio.run(_look(access))
    known = registry()
    setup, notice = running_setup(access, known)
    if not any(one.what == "leader" and one.state == PROBLEM for one in lines):
        lines.append(_configuration(setup.loaded, notice, known))
    lines += _pods(access, [one.scheduler_name for one in setup.loaded.profiles])
    record = {
        "apiVersion": API_VERSION,
        "kind": "Status",
        "items": [msgspec.to_builtins(one) for one in lines],
    }
    names = (one.what for one in lines if one.state == PROBLEM)
    if not cmdio.is_shown(record, flags.output, names):
        show_table(["what", "state", "found"], [[one.what, one.state, one.text] for one in lines])
    return 1 if any(one.state == PROBLEM for one in lines) else 0


async def _look(access: ClusterOptions) -> list[StatusLine]:
    client = await connect(access)
    try:
        server = await server_version(client, access.timeout_s) or "unknown"
        text = f"Kubernetes {server} at {client.credentials.access.server}"
        lines = [StatusLine("cluster", OK, text), StatusLine("command line", OK, VERSION)]
        try:
            lines += _leader_lines(await leader(client, "", access.timeout_s))
        except TrellisError as error:
            lines.append(StatusLine("leader", PROBLEM, str(error)))
        lines += [line async for line in _rights(client, access)]
        lines += [line async for line in _kinds(client, access)]
    finally:
        await client.close()
    return lines


def _leader_lines(found: Leader) -> list[StatusLine]:
    space = f" (Lease {found.namespace}/{found.lease})"
    lines = [StatusLine("leader", OK, f"{found.host}{space}")]
    version = found.version or "not published"
    differs = bool(found.version) and found.version != VERSION
    text = f"{version}; this command line is {VERSION}" if differs else version
    lines.append(StatusLine("version", NOTICE if differs else OK, text))
    if found.endpoint:
        lines.append(StatusLine("endpoint", OK, f"{found.endpoint} (page: {found.endpoint}/ui)"))
    else:
        text = "none: --secure-port 0 removes metrics, history and the page"
        lines.append(StatusLine("endpoint", NOTICE, text))
    if found.configuration_error:
        text = f"invalid, the last valid one stays in use: {found.configuration_error}"
        lines.append(StatusLine("configuration file", PROBLEM, text))
    if found.denied:
        text = f"the leader may not list {', '.join(found.denied)}; it knows nothing of them"
        lines.append(StatusLine("leader's rights", NOTICE, text))
    return lines


async def _rights(client: ApiClient, access: ClusterOptions) -> AsyncIterator[StatusLine]:
    for plural in _RIGHTS:
        answer = await client.request(
            "GET", f"/api/v1/{plural}?limit=1", timeout_s=access.timeout_s
        )
        if not answer.ok:
            text = answer.message or answer.reason or f"code {answer.code}"
            yield StatusLine(f"rights: list {plural}", PROBLEM, text)
            return
    yield StatusLine("rights", OK, f"you may list {' and '.join(_RIGHTS)} of all namespaces")


async def _kinds(client: ApiClient, access: ClusterOptions) -> AsyncIterator[StatusLine]:
    served: list[str] = []
    absent: list[str] = []
    for path, (plural, what) in _KINDS.items():
        answer = await client.request("GET", path, timeout_s=access.timeout_s)
        found: Any = msgspec.json.decode(answer.body) if answer.ok else {}
        names = {one.get("name") for one in found.get("resources", ())}
        (served if plural in names else absent).append(what)
    yield StatusLine("kinds", OK, ", ".join(served) or "none beside Kubernetes' own")
    if absent:
        yield StatusLine("kinds not served", NOTICE, ", ".join(absent))


def _configuration(loaded: Loaded, notice: str, known: Registry) -> StatusLine:
    if notice:
        return StatusLine("configuration", NOTICE, notice)
    names = ", ".join(one.scheduler_name for one in loaded.profiles)
    return StatusLine("configuration", OK, f"{origin(loaded, known)}; schedulerName {names}")


def origin(loaded: Loaded, known: Registry) -> str:
    """Return whether decisions follow from the defaults, from a preset, or from a file."""
    found = fingerprint(loaded)
    if found == fingerprint(default_config(known)):
        return "the defaults"
    presets = ((name, text) for name, text in PRESETS.items() if text)
    for name, text in presets:
        if found == fingerprint(load(text, file=name, registry=known)):
            return f"profile {name}"
    return "a file"


def _pods(access: ClusterOptions, profiles: Sequence[str]) -> list[StatusLine]:
    try:
        seen = read_source(SnapshotSource(access), AnswerOptions())
    except TrellisError as error:
        return [StatusLine("pods", PROBLEM, str(error))]
    snapshot = seen.snapshot
    waiting = len(snapshot.unbound)
    closed = sum(1 for node in snapshot.nodes if node.spec.unschedulable)
    text = f"{len(snapshot.nodes):,} nodes" + (f", {closed:,} cordoned" if closed else "")
    lines = [
        StatusLine("nodes", OK if snapshot.nodes else PROBLEM, text),
        StatusLine(
            "pods", OK, f"{len(snapshot.bound):,} on nodes, {waiting:,} wait (trellis queue)"
        ),
    ]
    return [*lines, *misspelt(snapshot, profiles)]


def misspelt(snapshot: Snapshot, profiles: Sequence[str]) -> Iterator[StatusLine]:
    """Yield the scheduler names of pending pods that are similar to a profile's name."""
    names = Counter(pod.spec.scheduler_name for pod in snapshot.unbound)
    for name, count in names.items():
        meant = None if name in profiles else closest(name, profiles)
        if meant:
            pods = "1 pod waits" if count == 1 else f"{count:,} pods wait"
            text = f'{pods} for "{name}", which is no profile: did you mean {meant}?'
            yield StatusLine("schedulerName", PROBLEM, text)
