"""`trellis capacity`: how many more pods or groups of a shape fit now, where, and what stops the next one.

Of a snapshot, or of what the user may read in the cluster. Exit codes: 0 at least one fits, or as many as are
wanted; 2 a file is invalid; 3 fewer do.
"""

from scheduler.base.errors import InputError
from scheduler.cli import asking
from scheduler.cli.commands import CapacityFlags
from scheduler.cli.live import ClusterOptions, reach
from scheduler.engine.attempt.cycle import Ties
from scheduler.explain.report import TextTable
from scheduler.simulate.capacity import DEFAULT_LIMIT, Capacity, room_for
from scheduler.simulate.capacity import capacity as count
from scheduler.simulate.copies import shape_of
from scheduler.simulate.offers import cheapest, read_offers
from scheduler.simulate.stage import AnswerOptions
from scheduler.snapshot.snapshot import Snapshot, SnapshotReader


def capacity(flags: CapacityFlags) -> int:
    """Count how many more pods or groups of a shape fit, or whether as many do as are wanted."""
    asking.be_quick()
    want, nodes, output = flags.want, flags.nodes, flags.output
    if not flags.filename:
        raise InputError("name a file with the pod to count: -f POD")
    if flags.limit is not None and want is not None:
        raise InputError(
            "--limit and --want exclude one another: as many as are wanted are counted"
        )
    models = asking.node_models(nodes)
    wanted = asking.options(flags.now, Ties.NAME, None, details=False, kubernetes=flags.kubernetes)
    if flags.snapshot:
        world = asking.read_files(flags.snapshot, flags.filename)
    else:
        world, wanted = _read_live(reach(flags.cluster), flags.filename, wanted)
    asking.tell(f"notice: {notice}" for notice in world.notices)
    changes = asking.node_changes(nodes, models) if any(nodes[:-1]) else None
    access = None if flags.snapshot else reach(flags.cluster)
    setup = asking.setups(flags.config, access).default
    if nodes.offer_nodes:
        number = 1 if want is None else want
        judge = room_for(number, setup, wanted, changes)
        most = number * len(shape_of(world).pods)
        offers = read_offers(nodes.offer_nodes, world, models)
        return asking.show_offers(cheapest(world, offers, judge, most), output)
    most = next((one for one in (want, flags.limit) if one is not None), DEFAULT_LIMIT)
    found = count(world, setup, most, wanted, changes)
    asking.tell(f"notice: {notice}" for notice in found.notices or ())
    if not asking.is_shown(found, output, (node.name for node in found.nodes)):
        print(headline(found))
        if found.nodes:
            rows = [[node.name, str(node.pods)] for node in found.nodes]
            asking.show_tables([TextTable(["node", "pods"], rows)])
    return 0 if found.fits >= (want or 1) else asking.EXIT_DOES_NOT_FIT


def _read_live(
    access: ClusterOptions, filename: list[str], wanted: AnswerOptions
) -> tuple[Snapshot, AnswerOptions]:
    """Read the cluster with the rights of the user; its time is that of now unless another is wanted."""
    reader = SnapshotReader()
    seen = asking.read_cluster(access, reader)
    reader.read(asking.items_in(filename), are_given=True)
    return reader.snapshot(), asking.taken_at(wanted, seen)


def headline(found: Capacity) -> str:
    """Return the answer in one line."""
    least = "at least " if found.limited else ""
    stopped = f"; the next one: {found.message}" if found.message else ""
    what = f"groups of {found.members} like {found.group}" if found.group else f"of {found.pod}"
    return f"{least}{found.fits} more {what} fit{stopped}"
