"""`trellis queue`: the pending pods in queue order, why each waits, and the result of its next
attempt.

One row for each group and each pod without one. Computed here by the scheduler's own code from the
objects that the user may read, or from a snapshot's files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from scheduler.base.clock import parse_rfc3339
from scheduler.cli.commands import QueueFlags
from scheduler.cli.flags import Output
from scheduler.cli.inputs import cmdio
from scheduler.cli.inputs.clusterflags import cluster_options
from scheduler.cli.inputs.source import SeenSnapshot, SnapshotSource, read_source
from scheduler.cli.output.amounts import amount, duration
from scheduler.cli.output.progress import progress
from scheduler.cli.output.watching import repeated
from scheduler.engine.attempt.cycle import Ties
from scheduler.explain.folds import racks_of, where_text
from scheduler.explain.grouprows import short_message, short_reason
from scheduler.explain.texttable import TextTable
from scheduler.objects.pod import Pod
from scheduler.simulate.records import API_VERSION, PodResult, Result, Simulation
from scheduler.simulate.simulate import simulate
from scheduler.state.resources import pod_requests


class QueueEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A waiting group or pod: `place` from 1; `asks` sums the requests of its `pods`.

    `result` is that of the next attempt, `where` has its nodes or racks. `since` is in seconds
    since the epoch, None if no pod states its creation.
    """

    place: int
    namespace: str
    name: str
    pods: int
    priority: int
    result: Result
    since: float | None
    asks: dict[str, float]
    where: str = ""
    message: str = ""


def queue(flags: QueueFlags) -> int:
    """List the pods and groups that wait, in the order of the queue."""
    cmdio.be_quick()
    access = cluster_options(flags.cluster, flags.namespace)
    source = SnapshotSource(access, flags.snapshot or (), flags.filename or ())
    setup = cmdio.setups(flags.config, access if source.is_live else None).default
    wanted = cmdio.options(flags.now, Ties.NAME, None, details=False)
    listed: list[QueueEntry] = []
    now = 0.0

    def look() -> list[QueueEntry]:
        nonlocal listed, now
        seen = read_source(source, wanted, setups=(setup,))
        now = seen.snapshot.taken_at if seen.options.now is None else seen.options.now
        with progress("placing the pods that wait"):
            found = simulate(seen.snapshot, setup, seen.options)
        space = "" if flags.all_namespaces else flags.namespace
        listed = [one for one in entries(found, seen) if not space or one.namespace == space]
        return listed

    repeated(look, lambda: _show(listed, now, flags.output), is_watched=flags.watch)
    return 0


def entries(found: Simulation, seen: SeenSnapshot) -> list[QueueEntry]:
    """Return the entries of the queue in its order, a group at the place of its first member."""
    pods = {pod.key: pod for pod in seen.snapshot.unbound}
    racks = racks_of(seen.snapshot.nodes)
    described = {f"{one.namespace}/{one.name}": one for one in found.groups}
    units: dict[str, list[PodResult]] = {}
    for result in found.pods:
        units.setdefault(result.group or result.key, []).append(result)
    listed = []
    for place, (key, results) in enumerate(units.items(), 1):
        own = [pods[one.key] for one in results if one.key in pods]
        waiting = next((one for one in results if one.result is not Result.SCHEDULED), results[0])
        group = described.get(key)
        listed.append(
            QueueEntry(
                place,
                results[0].namespace,
                key.partition("/")[2],
                len(results),
                max((pod.spec.priority or 0 for pod in own), default=0),
                waiting.result,
                _since(own),
                _requests(own),
                where_text((one.node for one in results if one.node), racks),
                (short_message(group) if group is not None else "") or waiting.message,
            )
        )
    return listed


def _since(pods: Iterable[Pod]) -> float | None:
    stamps = (pod.metadata.creation_timestamp for pod in pods)
    times = [parse_rfc3339(stamp) for stamp in stamps if stamp]
    return min((time for time in times if time is not None), default=None)


def _requests(pods: Iterable[Pod]) -> dict[str, float]:
    total: dict[str, float] = {}
    for pod in pods:
        for name, value in pod_requests(pod).items():
            whole = value / 1000 if name == "cpu" else value
            total[name] = total.get(name, 0) + whole
    return total


def _show(listed: Sequence[QueueEntry], now: float, output: Output) -> None:
    record = {"apiVersion": API_VERSION, "kind": "Queue", "items": listed}
    if cmdio.is_shown(record, output, (f"{one.namespace}/{one.name}" for one in listed)):
        return
    if not listed:
        cmdio.print_stderr(["no pod waits"])
        return
    is_wide = output is Output.WIDE
    titles = ["#", "namespace", "name", "pods", "priority", "age", "asks"]
    titles += ["next", "why"] if is_wide else ["why"]
    rows = [_row(one, now, is_wide=is_wide) for one in listed]
    cmdio.show_tables([TextTable(titles, rows, optional=("asks", "age"))], output)


def _row(one: QueueEntry, now: float, *, is_wide: bool) -> list[str]:
    asks = ", ".join(
        f"{amount(name, value)} {name.rpartition('/')[2]}" for name, value in one.asks.items()
    )
    age = "" if one.since is None else duration(now - one.since)
    why = one.message if is_wide else short_reason(one.message)
    why = f"goes to {one.where}" if one.result is Result.SCHEDULED else why
    priority = f"{one.priority:,}" if one.priority or is_wide else ""
    cells = [f"{one.place:,}", one.namespace, one.name, f"{one.pods:,}", priority, age, asks]
    return [*cells, one.result.value, why] if is_wide else [*cells, why]
