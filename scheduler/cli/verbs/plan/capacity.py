"""`trellis capacity`: how many more pods or groups of a shape fit, where, and what stops the next
one.

The shape is a manifest (`-f`), an object of the cluster (`deploy/web`) or amounts (`--cpu 4 --gpu
8`). Exit codes: 0 at least one fits, or the wanted number; 2 a file is invalid; 3 fewer fit.
"""

import re
from collections.abc import Iterable

from msgspec.structs import replace

from scheduler.base.errors import InputError
from scheduler.cli.commands import CapacityFlags
from scheduler.cli.flags import Output
from scheduler.cli.inputs import cmdio
from scheduler.cli.inputs.aftermoves import AfterMoves, plan_command
from scheduler.cli.inputs.clusterflags import cluster_options
from scheduler.cli.inputs.source import (
    SeenSnapshot,
    SnapshotSource,
    applied_manifest,
    read_source,
    with_copy,
)
from scheduler.cli.output.progress import progress
from scheduler.engine.attempt.cycle import Ties
from scheduler.explain.folds import folded_counts
from scheduler.explain.texttable import TextTable
from scheduler.moves.goals import CapacityGoal
from scheduler.simulate.capacity import DEFAULT_LIMIT, Capacity, capacity_for
from scheduler.simulate.capacity import capacity as count
from scheduler.simulate.copies import shape_of
from scheduler.simulate.derive import with_derived_groups
from scheduler.simulate.offers import cheapest, read_offers
from scheduler.simulate.shapes import NAME, RequestedShape, shape_items
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.documents import Item
from scheduler.snapshot.snapshot import Snapshot, SnapshotReader
from scheduler.snapshot.targets import pods_of, target_of

FEW = 10
# The name of a copy of an unnamed shape, as it begins the reason.
_COPY = re.compile(rf"^the group \S+/{NAME}\S* does not fit: ")


def capacity(flags: CapacityFlags) -> int:
    """Count how many more pods or groups of a shape fit, or check whether a given number fits."""
    cmdio.be_quick()
    want, nodes, output = flags.want, flags.nodes, flags.output
    if flags.limit is not None and want is not None:
        raise InputError(
            "--limit and --want exclude one another: as many as are wanted are counted"
        )
    models = cmdio.node_models(nodes)
    wanted = cmdio.options(flags.now, Ties.NAME, None, details=False, kubernetes=flags.kubernetes)
    access = cluster_options(flags.cluster, flags.namespace)
    source = SnapshotSource(access, flags.snapshot or (), flags.filename or ())
    setup = cmdio.setups(flags.config, access if source.is_live else None).default
    moves = AfterMoves()
    seen = _with_shape(flags, source, wanted, setup, moves)
    snapshot, wanted = seen.snapshot, seen.options
    cmdio.print_stderr(f"notice: {notice}" for notice in snapshot.notices)
    changes = cmdio.node_changes(nodes, models) if any(nodes[:-1]) else None
    if nodes.offer_nodes:
        number = 1 if want is None else want
        check = capacity_for(number, setup, wanted, changes)
        most = number * len(shape_of(snapshot).pods)
        offers = read_offers(nodes.offer_nodes, snapshot, models)
        with progress("trying the nodes on offer"):
            best = cheapest(snapshot, offers, check, most)
        return cmdio.show_offers(best, output)
    most = next((one for one in (want, flags.limit) if one is not None), DEFAULT_LIMIT)
    with progress("placing copies"):
        found = count(snapshot, setup, most, wanted, changes)
    cmdio.print_stderr(f"notice: {notice}" for notice in found.notices or ())
    if not cmdio.is_shown(found, output, (node.name for node in found.nodes)):
        print(headline(found, RequestedShape(*flags.shape)))
        if found.nodes:
            cmdio.show_tables(
                [_nodes_table(found, snapshot, is_wide=output is Output.WIDE)], output
            )
        if found.fits < (want or 1) and changes is None:
            _show_after_moves(flags, seen, moves, setup)
    return 0 if found.fits >= (want or 1) else cmdio.EXIT_DOES_NOT_FIT


def _show_after_moves(
    flags: CapacityFlags, seen: SeenSnapshot, moves: AfterMoves, setup: Setup
) -> None:
    """Print a line if moves of running pods make the wanted copies fit."""
    shape, number = shape_of(seen.snapshot), flags.want or 1
    if number > shape.most:
        return
    given = seen.snapshot.given
    waiting = tuple(pod for pod in seen.snapshot.unbound if pod.metadata.uid not in given)
    snapshot = replace(seen.snapshot, unbound=waiting, given=frozenset())
    goal = CapacityGoal(number, shape.name, shape.pods)
    statement = moves.statement(snapshot, setup, goal, seen.options)
    if statement:
        files = flags.filename or ()
        plan = f". {plan_command(f'--capacity {number}', files)}" if files else ""
        print(f"{number:,} {'fits' if number == 1 else 'fit'} after {statement}{plan}")


def _with_shape(
    flags: CapacityFlags,
    source: SnapshotSource,
    wanted: AnswerOptions,
    setup: Setup,
    moves: AfterMoves,
) -> SeenSnapshot:
    """Return the cluster with the requested shape as its only given pod."""
    requested = RequestedShape(*flags.shape)
    forms = [bool(flags.words), bool(flags.filename), bool(any(flags.shape))]
    if sum(forms) != 1:
        text = "name one shape: -f FILE, TYPE/NAME, or --cpu, --memory and --gpu"
        raise InputError(text)
    if any(flags.shape):
        seen = read_source(source, wanted, setups=(setup,), note=moves.note)
        return _with_given(seen, shape_items(requested, seen.snapshot), setup)
    if not flags.words:
        return read_source(source, wanted, setups=(setup,), as_copies=True, note=moves.note)
    target = target_of(flags.words, flags.namespace)
    source = source._replace(
        access=source.access._replace(namespace=target.namespace or source.access.namespace)
    )
    seen = read_source(source, wanted, setups=(setup,), note=moves.note)
    named = target._replace(namespace=target.namespace or seen.namespace)
    if not pods_of(seen.snapshot, named):
        found = applied_manifest(source, named, seen.namespace)
        if found:
            return _with_given(seen, found, setup)
    return seen._replace(snapshot=with_copy(seen.snapshot, named))


def _with_given(seen: SeenSnapshot, items: Iterable[Item], setup: Setup) -> SeenSnapshot:
    reader = SnapshotReader(is_alone=True, as_copies=True)
    reader.read(items, are_given=True)
    shape, snapshot = reader.snapshot(), seen.snapshot
    given = replace(
        snapshot,
        objects=(*snapshot.objects, *shape.objects),
        unbound=(*snapshot.unbound, *shape.unbound),
        given=shape.given,
        origins=(*snapshot.origins, *shape.origins),
    )
    return seen._replace(snapshot=with_derived_groups(given, setup.loaded))


def headline(found: Capacity, requested: RequestedShape) -> str:
    """Return the answer in one line; a shape given by amounts (`requested`) has no name."""
    least = "at least " if found.limited else ""
    amounts = str(requested)
    if not amounts:
        what = f"groups of {found.members} like {found.group}" if found.group else f"of {found.pod}"
    elif found.group:
        what = f"groups of {found.members} pods of {amounts}"
    else:
        what = f"pods of {amounts}"
    message = _COPY.sub("", found.message) if amounts else found.message
    stopped = f"; the next one: {message}" if message else ""
    return f"{least}{found.fits:,} more {what} fit{stopped}"


def _nodes_table(found: Capacity, snapshot: Snapshot, *, is_wide: bool) -> TextTable:
    if is_wide or len(found.nodes) <= FEW:
        return TextTable(["node", "pods"], [[node.name, str(node.pods)] for node in found.nodes])
    return folded_counts({node.name: node.pods for node in found.nodes}, snapshot.nodes)
