"""`trellis groups`: every group with its members, where they are, and the proof or what it waits for.

What waits is planned here, by the daemon's own engine on what the user may read in the cluster or on a
snapshot's files. Nothing is written to the cluster. With `-w` the table is printed again when it changes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from scheduler.cli.asking import be_quick, options, read_cluster, read_files, setups, tell
from scheduler.cli.commands import GroupsFlags
from scheduler.cli.live import reach
from scheduler.cli.printing import TableColumn, show
from scheduler.engine.attempt.cycle import Ties
from scheduler.simulate.simulate import simulate
from scheduler.snapshot.snapshot import SnapshotReader

AGAIN_S = 2.0


def groups(flags: GroupsFlags) -> int:
    """List the groups with members, placement, proof or conflict."""
    be_quick()
    setup = setups(flags.config, None if flags.snapshot else reach(flags.cluster)).default
    wanted = options(flags.now, Ties.NAME, None, details=False)

    def listed() -> dict[str, Any]:
        if flags.snapshot:
            world = read_files(flags.snapshot, None)
        else:
            reader = SnapshotReader()
            seen = read_cluster(reach(flags.cluster), reader)
            tell(f"notice: {notice}" for notice in seen.notices)
            world = reader.snapshot()
        found = simulate(world, setup, wanted).groups
        return {"kind": "GroupList", "items": [msgspec.to_builtins(one) for one in found]}

    last: dict[str, Any] | None = None
    while True:
        document = listed()
        told = {"items": [{**one, "solverSeconds": 0} for one in document["items"]]}
        if told != last:
            last = told
            show(document, _COLUMNS, flags.output)
        if not flags.watch or flags.snapshot:
            return 0
        time.sleep(AGAIN_S)


def _pods(item: Mapping[str, Any]) -> str:
    """Return how many members have a place, of how many that are needed."""
    placed = sum(1 for _ in _leaves(item["placement"].get("root") or {}))
    return f"{placed}/{item['minimum']}{'' if item['maximum'] else '+'}"


def _where(item: Mapping[str, Any]) -> str:
    """Return the topmost units that hold members, with how many are in each."""
    units = item["placement"].get("root") or {}
    return " ".join(f"{name}:{sum(1 for _ in _leaves(below))}" for name, below in units.items())


def _leaves(units: Mapping[str, Any]) -> Iterator[str]:
    """Yield the pods of a placement, its innermost names."""
    for name, below in units.items():
        if below:
            yield from _leaves(below)
        else:
            yield name


def _proof(item: Mapping[str, Any]) -> str:
    if item["conflict"]:
        return "conflict: " + ", ".join(item["conflict"])
    return "optimal" if item["optimal"] else ""


_COLUMNS = (
    TableColumn("namespace", lambda item: item["namespace"]),
    TableColumn("name", lambda item: item["name"]),
    TableColumn("source", lambda item: item["source"]),
    TableColumn("status", lambda item: item["status"]),
    TableColumn("pods", _pods),
    TableColumn("where", _where),
    TableColumn("proof", _proof),
    TableColumn("message", lambda item: item["message"]),
)
