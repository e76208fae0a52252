"""`trellis capacity`: how many more pods or groups of a shape fit now, where, and what stops the next one.

Exit codes: 0 at least one fits, 2 a file is invalid, 3 none fits.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.base.errors import InputError
from scheduler.cli.asking import (
    EXIT_DOES_NOT_FIT,
    be_quick,
    options,
    read_files,
    setups,
    show_record,
    show_tables,
    tell,
)
from scheduler.cli.flags import Output
from scheduler.engine.attempt.choose import Ties
from scheduler.whatif.capacity import Capacity
from scheduler.whatif.capacity import capacity as count
from scheduler.whatif.changes import NodeChanges
from scheduler.whatif.report import Table


def capacity(
    snapshot: list[str] | None,
    filename: list[str] | None,
    limit: int,
    config: str,
    changes: tuple[Sequence[str], Sequence[str], Sequence[str]],
    now: str,
    output: Output,
) -> int:
    """Count how many more pods or groups of a shape fit into a snapshot."""
    be_quick()
    if not filename:
        raise InputError("name a file with the pod to count: -f POD")
    world = read_files(snapshot, filename)
    wanted = options(now, Ties.NAME, None, details=False)
    tell(f"notice: {notice}" for notice in world.notices)
    different = NodeChanges(*map(tuple, changes)) if any(changes) else None
    found = count(world, setups(config).default, limit, wanted, different)
    tell(f"notice: {notice}" for notice in found.notices or ())
    if output in (Output.JSON, Output.YAML):
        show_record(found, output)
    elif output is Output.NAME:
        print(*(node.name for node in found.nodes), sep="\n")
    else:
        print(headline(found))
        if found.nodes:
            rows = [[node.name, str(node.pods)] for node in found.nodes]
            show_tables([Table(["node", "pods"], rows)])
    return 0 if found.fits else EXIT_DOES_NOT_FIT


def headline(found: Capacity) -> str:
    """Return the answer in one line."""
    least = "at least " if found.limited else ""
    stopped = f"; the next one: {found.message}" if found.message else ""
    what = f"groups of {found.members} like {found.group}" if found.group else f"of {found.pod}"
    return f"{least}{found.fits} more {what} fit{stopped}"
