"""`trellis trace` watches a cluster, and a replay of its trace places the pods as the daemon did.

The cases run on the sandbox and, with KUBEBUILDER_ASSETS, on a real kube-apiserver.
"""

import asyncio
import functools
import json
import signal
from pathlib import Path

from scheduler.cli.inputs import cmdio
from scheduler.engine.attempt.cycle import Ties
from scheduler.simulate.stage import AnswerOptions, staged
from scheduler.simulate.traces.manifests import read_lines
from scheduler.simulate.traces.play import TracePlayer
from scheduler.snapshot.documents import SourceFile, items_of
from scheduler.snapshot.snapshot import read_snapshot
from tests.e2e.livecluster import LiveCluster, daemon

# A trace has the pods of the whole cluster; those of other tests may take part of these nodes.
OWN_CLUSTER = True


async def test_a_watched_cluster_becomes_a_trace(cluster: LiveCluster, tmp_path: Path):
    """`trace` runs until Ctrl-C; replayed with the same configuration, each pod gets its former
    node.
    """
    await cluster.nodes("8", "4")
    nodes = tmp_path / "nodes.json"
    process = await cluster.start(["trace", "--nodes", str(nodes)])
    assert process.stderr is not None
    while (line := await process.stderr.readline()) != b"watching until Ctrl-C\n":
        assert line, "the process has ended"
    async with daemon(cluster, tmp_path):
        for number in range(6):
            name = f"p{number}"
            await cluster.pod(name, requests={"cpu": "1"})
            await cluster.until(functools.partial(cluster.is_bound, name))
        await cluster.ended("p0")
        await cluster.pod("last", requests={"cpu": "1"})
        await cluster.until(lambda: cluster.is_bound("last"))
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    assert 0 == process.returncode, err

    pods = [pod for pod in map(json.loads, out.splitlines()) if pod["kind"] == "Pod"]
    own = [pod["metadata"] for pod in pods]
    assert [f"p{number}" for number in range(6)] + ["last"] == [meta["name"] for meta in own]
    ended = [meta["name"] for meta in own if "trellis.dev/duration" in meta["annotations"]]
    assert ["p0"] == ended
    live = {name: await cluster.node_of(name) for name in (meta["name"] for meta in own)}
    assert live == await asyncio.to_thread(_replayed, nodes, out, cluster.ns)


def _replayed(nodes: Path, trace: bytes, namespace: str) -> dict[str, str]:
    """Replay a trace with the built-in configuration; return the node of each pod."""
    snapshot = read_snapshot(items_of(SourceFile("nodes", nodes.read_bytes())))
    stage = staged(snapshot, cmdio.setups("").default, AnswerOptions(ties=Ties.UID))
    player, found = TracePlayer(stage, "trellis"), {}

    def bound(pod: str, node: str, _at: float) -> None:
        space, _, name = pod.partition("/")
        if space == namespace:
            found[name] = node

    player.on_bound = bound
    player.play(read_lines(trace.splitlines(keepends=True), "trace"), lambda _pods, _s: None)
    return found
