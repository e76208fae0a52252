"""The state of each node's zones, for users: gauges, events and `trellis topology --numa`.

without   no report: the node is used as if zones did not matter used      the report is in force
behind    a newer report waits, because it names pods that are not known yet stale     a foreign pod
took a zone that no report includes: no aligned pod goes there
"""

from collections.abc import Iterator

import msgspec

from scheduler.base.clock import parse_rfc3339, rfc3339
from scheduler.objects.reports.numa import NodeResourceTopology
from scheduler.plugins.numa.reservations import Reservations
from scheduler.plugins.numa.tracker import BEHIND, STALE, WITHOUT, Topologies
from scheduler.plugins.numa.zones import expected_fingerprint, kubelet_settings, read_zones


class NodeState(msgspec.Struct, frozen=True, rename="camel"):
    """One node: its kubelet's alignment, the free amounts of its zones, and the age of the data.

    `free` is by resource the free amount of each zone, in thousandths, -1 where it lists none;
    `age_s` is the time since the report was written, `owed` the number of pods it does not include.
    """

    node: str
    state: str
    policy: str = ""
    scope: str = ""
    zones: tuple[int, ...] = ()
    free: dict[str, tuple[int, ...]] = {}
    age_s: float | None = None
    owed: int = 0
    since: str | None = None
    why: str = ""


def node_states(topologies: Topologies, now: float) -> Iterator[NodeState]:
    """Yield the state of every node in the order of the table; `now` in seconds since the epoch."""
    for name in topologies.names():
        topology = topologies.topology(name)
        if topology is None:
            yield NodeState(name, WITHOUT, why="no NodeResourceTopology of this name")
            continue
        reserved = None if topologies.reserving is None else topologies.reserving.by_node.get(name)
        yield _reported(topologies, topology, name, reserved, now)


def figures(topologies: Topologies, name: str, now: float) -> tuple[str, ...]:
    """Return figures about a node's zones as texts, one line for each."""
    topology = topologies.topology(name)
    if topology is None:
        return ("no NodeResourceTopology: zones do not matter here",)
    reserved = None if topologies.reserving is None else topologies.reserving.by_node.get(name)
    state = _reported(topologies, topology, name, reserved, now)
    age = "" if state.age_s is None else f", {state.age_s:.0f} s old"
    lines = [f"report {state.state}{age}; {state.policy}, scope {state.scope}"]
    if state.why:
        lines.append(state.why)
    if state.owed:
        lines.append(f"{state.owed} pods that it does not account for are deducted from every zone")
    for at, number in enumerate(state.zones):
        left = (
            f"{resource} {amount_text(resource, amounts[at])}"
            for resource, amounts in state.free.items()
        )
        lines.append(f"zone {number} has left: {', '.join(left)}")
    return tuple(lines)


def amount_text(resource: str, thousandths: int) -> str:
    """Return an amount for display: bytes as GiB, a dash if the zone lists none."""
    if thousandths < 0:
        return "-"
    whole = thousandths / 1000
    if resource == "memory" or resource.startswith("hugepages-"):
        return f"{whole / 2**30:.4g}Gi"
    return f"{whole:.4g}"


def why_stale(reserved: Reservations) -> str:
    """Return why the figures of a node are invalid, and since when."""
    foreign = sorted(uid for uid, owed in reserved.owed.items() if owed.is_foreign)
    named = ", ".join(reserved.names_of(foreign[:3])) + (", ..." if len(foreign) > 3 else "")
    since = "" if reserved.since is None else f" since {rfc3339(reserved.since)}"
    return (
        f"invalid node topology data{since}: no report accounts for {named}, "
        f"bound by another scheduler; {why_behind(reserved)}"
    )


def why_behind(reserved: Reservations) -> str:
    """Return why a report is not in force."""
    report = reserved.waiting or reserved.taken
    if report is None:
        return "there is no report"
    if not expected_fingerprint(report):
        return (
            "its reports have no fingerprint of pods, so it is unknown which pods they account for"
        )
    if reserved.waiting is None:
        return "the next report is awaited"
    return "its last report names other pods than are known here"


def _reported(
    topologies: Topologies,
    topology: NodeResourceTopology,
    name: str,
    reserved: Reservations | None,
    now: float,
) -> NodeState:
    state = topologies.state_of(name)
    settings = kubelet_settings(topology)
    zones = read_zones(topology)
    written = parse_rfc3339(topology.written)
    why = ""
    if reserved is not None and state == STALE:
        why = why_stale(reserved)
    elif reserved is not None and state == BEHIND:
        why = why_behind(reserved)
    elif not zones.layout.ids:
        why = "none of its zones counts: their type must be Node, their names node-0 to node-63"
    since = None if reserved is None or reserved.since is None else rfc3339(reserved.since)
    return NodeState(
        node=name,
        state=state,
        policy=settings.policy,
        scope=settings.scope,
        zones=zones.layout.ids,
        free=topologies.left(name),
        age_s=None if written is None else max(0.0, now - written),
        owed=0 if reserved is None else len(reserved.owed),
        since=since,
        why=why,
    )
