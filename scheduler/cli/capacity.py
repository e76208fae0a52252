"""`trellis capacity`: how many more pods or groups of a shape fit now, where, and what stops the next one.

Of a snapshot, or of what the user may read in the cluster. Exit codes: 0 at least one fits, or as many as are
wanted; 2 a file is invalid; 3 fewer do.
"""

from __future__ import annotations

from msgspec.structs import replace

from scheduler.base.errors import InputError
from scheduler.cli.asking import (
    EXIT_DOES_NOT_FIT,
    NodeOptions,
    be_quick,
    items_in,
    options,
    read_files,
    setups,
    show_offers,
    show_record,
    show_tables,
    tell,
)
from scheduler.cli.flags import Output
from scheduler.cli.live import Access, look
from scheduler.engine.attempt.choose import Ties
from scheduler.whatif.capacity import DEFAULT_LIMIT, Capacity, room_for
from scheduler.whatif.capacity import capacity as count
from scheduler.whatif.copies import shape_of
from scheduler.whatif.documents import Source, items_of
from scheduler.whatif.offers import cheapest, read_offers
from scheduler.whatif.report import Table
from scheduler.whatif.snapshot import READ, Snapshot, SnapshotReader
from scheduler.whatif.stage import Options


def capacity(
    snapshot: list[str] | None,
    filename: list[str] | None,
    limit: int | None,
    want: int | None,
    config: str,
    nodes: NodeOptions,
    now: str,
    access: Access,
    output: Output,
) -> int:
    """Count how many more pods or groups of a shape fit, or whether as many do as are wanted."""
    be_quick()
    if not filename:
        raise InputError("name a file with the pod to count: -f POD")
    if limit is not None and want is not None:
        raise InputError(
            "--limit and --want exclude one another: as many as are wanted are counted"
        )
    models = nodes.models()
    wanted = options(now, Ties.NAME, None, details=False)
    if snapshot:
        world = read_files(snapshot, filename)
    else:
        world, wanted = _read_live(access, filename, wanted)
    tell(f"notice: {notice}" for notice in world.notices)
    changes = nodes.changes(models) if any(nodes[:-1]) else None
    setup = setups(config).default
    if nodes.offer:
        number = 1 if want is None else want
        judge = room_for(number, setup, wanted, changes)
        most = number * len(shape_of(world).pods)
        offers = read_offers(nodes.offer, world, models)
        return show_offers(cheapest(world, offers, judge, most), output)
    most = next((one for one in (want, limit) if one is not None), DEFAULT_LIMIT)
    found = count(world, setup, most, wanted, changes)
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
    return 0 if found.fits >= (want or 1) else EXIT_DOES_NOT_FIT


def _read_live(access: Access, filename: list[str], wanted: Options) -> tuple[Snapshot, Options]:
    """Read the cluster with the rights of the user; its time is that of now unless another is wanted."""
    reader = SnapshotReader()

    def take(page: Source) -> None:
        reader.read(items_of(page))

    seen = look(access, READ, take)
    reader.read(items_in(filename), are_given=True)
    tell(f"notice: {notice}" for notice in seen.notices)
    now = seen.now if wanted.now is None else wanted.now
    return reader.snapshot(), replace(wanted, now=now)


def headline(found: Capacity) -> str:
    """Return the answer in one line."""
    least = "at least " if found.limited else ""
    stopped = f"; the next one: {found.message}" if found.message else ""
    what = f"groups of {found.members} like {found.group}" if found.group else f"of {found.pod}"
    return f"{least}{found.fits} more {what} fit{stopped}"
