"""`trellis simulate`: what the scheduler would do with the pending pods of a snapshot.

Three forms: one snapshot, one snapshot under two configurations (`--against`), and many cases in one
process (`--batch`); `-o html` makes a page of a comparison. Exit codes: 0 everything fits (or both configurations agree), 1 they differ, 2 a
file is invalid, 3 a pod does not fit, 4 all fit but a group perhaps not at its best.
"""

import sys
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from scheduler.base.errors import InputError
from scheduler.cli import asking
from scheduler.cli.commands import ResultForm, SimulateFlags
from scheduler.cli.files import read_text, shown
from scheduler.cli.flags import Output
from scheduler.cli.parallel import answer_lines, processors
from scheduler.engine.attempt.cycle import Ties
from scheduler.explain.report import diff_line, diff_table, simulation_tables, summary_line
from scheduler.intree import registry
from scheduler.simulate.batch import Batch
from scheduler.simulate.diff import diff
from scheduler.simulate.offers import cheapest, pods_wait, read_offers
from scheduler.simulate.simulate import simulate as place
from scheduler.simulate.simulate import simulate_stage
from scheduler.simulate.stage import AnswerOptions, staged
from scheduler.snapshot.changes import changed
from scheduler.snapshot.snapshot import Snapshot

EXIT_DIFFERS: Final = 1


def simulate(flags: SimulateFlags) -> int:
    """Place the pending pods of a snapshot, without a cluster."""
    asking.be_quick()
    snapshot, filename, nodes, form = flags.snapshot, flags.filename, flags.nodes, flags.output
    wanted = asking.options(
        flags.now,
        Ties(flags.ties),
        flags.seed,
        details=flags.details,
        kubernetes=flags.kubernetes,
    )
    if flags.batch:
        if snapshot or filename or flags.against or any(nodes):
            raise InputError(
                "--batch goes without --snapshot, -f and what changes or compares them"
            )
        return _batch(flags.batch, flags.config, wanted)
    if not snapshot and not filename:
        raise InputError("name what to simulate: --snapshot F, -f PODS or --batch F")
    if form is ResultForm.HTML and not flags.against and not flags.trace:
        raise InputError(
            "a page compares: name another configuration by --against", where="-o html"
        )
    models = asking.node_models(nodes)
    world = changed(asking.read_files(snapshot, filename), asking.node_changes(nodes, models))
    if flags.trace:
        from scheduler.cli.traces import play_trace

        if nodes.offer_nodes or flags.details:
            raise InputError("--trace goes without --offer-nodes and --details")
        return play_trace(flags, world, wanted)
    if nodes.offer_nodes and flags.against:
        raise InputError("--offer-nodes and --against exclude one another")
    if flags.against:
        return _compare(world, flags.config, flags.against, wanted, form)
    output, setup = Output(form), asking.setups(flags.config).default
    if nodes.offer_nodes:
        offers = read_offers(nodes.offer_nodes, world, models)
        # A node that no pod needs does not help.
        most = len(staged(world, setup, wanted).pending)
        return asking.show_offers(cheapest(world, offers, pods_wait(setup, wanted), most), output)
    stage = staged(world, setup, wanted)
    asking.tell(f"notice: {notice}" for notice in stage.notices)
    simulation = simulate_stage(stage, wanted)
    names = (f"{pod.key} {pod.node}" for pod in simulation.pods if pod.node)
    if not asking.is_shown(simulation, output, names):
        asking.show_tables(simulation_tables(simulation, wide=output is Output.WIDE))
        asking.tell([summary_line(simulation)])
    if not simulation.fits:
        return asking.EXIT_DOES_NOT_FIT
    return 0 if simulation.is_proven else asking.EXIT_UNPROVEN


def _compare(
    world: Snapshot, config: str, against: str, wanted: AnswerOptions, form: ResultForm
) -> int:
    known = registry()
    first, second = asking.setups(config).default, asking.read_setup(against, known)
    wanted = msgspec.structs.replace(wanted, scores=form is ResultForm.HTML)
    before, after = place(world, first, wanted), place(world, second, wanted)
    found = diff(before, after)
    if form is ResultForm.HTML:
        from scheduler.cli.comparison import html, side

        one = side(shown(config) if config else "the default configuration", world, before)
        print(html(one, side(shown(against), world, after)), end="")
        asking.tell([diff_line(found)])
        return 0 if found.is_same else EXIT_DIFFERS
    if not asking.is_shown(found, Output(form), (pod.key for pod in found.pods)):
        if found.pods:
            asking.show_tables([diff_table(found)])
        asking.tell([diff_line(found)])
    return 0 if found.is_same else EXIT_DIFFERS


def _batch(name: str, config: str, wanted: AnswerOptions) -> int:
    """Answer line by line; that a case does not fit, or is wrong, stands in its answer."""
    answering = Batch(asking.setups(config), wanted, read_text)
    with _opened(name) as file:
        try:
            answer_lines(file, sys.stdout.buffer, answering.answer, processes=processors())
        except InputError as error:
            raise InputError(error.message, where=shown(name)) from error
    return 0


def _opened(name: str) -> BinaryIO:
    try:
        return sys.stdin.buffer if name == "-" else Path(name).open("rb")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read: {reason}", where=name) from error
