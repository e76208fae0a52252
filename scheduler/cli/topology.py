"""`trellis topology --numa`: what is known of each node's NUMA zones, and what is wrong with it.

Recomputed here from what the user may read in the cluster, or from a snapshot's files; the daemon's own
view is in its metrics. Nothing is written to the cluster.
"""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.base.errors import InputError
from scheduler.cli.asking import options, read_files
from scheduler.cli.flags import Output
from scheduler.cli.live import Access, look, seconds
from scheduler.cli.printing import Column, show
from scheduler.engine.attempt.choose import Ties
from scheduler.objects.kinds import BY_KIND, NODE, POD
from scheduler.plugins.numa.reserving import Following
from scheduler.plugins.numa.states import amount_text, node_states
from scheduler.plugins.numa.tracker import KIND, Topologies
from scheduler.state.cluster import Cluster
from scheduler.whatif.documents import Source, items_of
from scheduler.whatif.snapshot import Snapshot, SnapshotReader


def topology(
    numa: bool,
    scheduler_name: list[str] | None,
    snapshot: list[str] | None,
    now: str,
    kubeconfig: str,
    context: str,
    request_timeout: str,
    output: Output,
) -> int:
    """Show what is known of each node's NUMA zones."""
    if not numa:
        raise InputError("say what to show: --numa")
    if snapshot:
        world = read_files(snapshot, None)
        wanted = options(now, Ties.NAME, None, details=False).now
        moment = world.taken_at if wanted is None else wanted
    else:
        world, moment = _read_live(Access(kubeconfig, context, seconds(request_timeout)))
    following = Following(frozenset(scheduler_name or ("trellis",)))
    states = node_states(_followed(world, following), moment)
    items = [msgspec.to_builtins(state) | {"name": state.node} for state in states]
    show({"kind": "NumaTopology", "items": items}, _COLUMNS, output)
    return 0


def _read_live(access: Access) -> tuple[Snapshot, float]:
    reader = SnapshotReader()

    def take(source: Source) -> None:
        reader.read(items_of(source))

    seen = look(access, (NODE, POD, BY_KIND[KIND]), take)
    return reader.snapshot(), seen.now


def _followed(world: Snapshot, following: Following) -> Topologies:
    """Let a tracker follow a snapshot's objects, reports first, as the daemon's does."""
    cluster, topologies = Cluster(), Topologies()
    topologies.rebuild(cluster)
    reserving = topologies.reserve(following)
    for kind, obj in world.objects:
        if kind == KIND:
            topologies.apply(cluster.put_object(kind, obj))
    for node in world.nodes:
        topologies.apply(cluster.put_node(node))
    for pod in world.bound:
        topologies.apply(cluster.put_pod(pod))
    reserving.settle()
    return topologies


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _age(item: Any) -> str:
    age = item["ageS"]
    if age is None:
        return ""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if age >= 2 * length:
            return f"{int(age // length)}{unit}"
    return f"{int(age)}s"


def _free(item: Any) -> str:
    """Return what each zone has left: `cpu 4/12 memory 8Gi/60Gi`."""
    return " ".join(
        f"{name} " + "/".join(amount_text(name, part) for part in parts)
        for name, parts in item["free"].items()
    )


_COLUMNS = (
    Column("node", lambda item: item["node"]),
    Column("policy", lambda item: item["policy"]),
    Column("scope", lambda item: item["scope"]),
    Column("zones", lambda item: ",".join(map(str, item["zones"]))),
    Column("left", _free),
    Column("age", _age),
    Column("unseen pods", lambda item: _text(item["owed"] or None)),
    Column("state", lambda item: item["state"]),
    Column("why", lambda item: item["why"]),
)
