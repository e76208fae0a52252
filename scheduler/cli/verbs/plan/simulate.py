"""`trellis simulate`: place the pending pods of a cluster or a snapshot without changing it.

Three forms: one cluster, one cluster under two configurations (`--against`), and many cases in one
process (`--batch`); `-o html` writes a comparison as a page. Exit codes: 0 everything fits (or both
configurations agree), 1 they differ, 2 a file is invalid, 3 a pod does not fit, 4 all fit but a
group is not proven best.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from msgspec.structs import replace

from scheduler.base.errors import InputError
from scheduler.cli.commands import ResultForm, SimulateFlags
from scheduler.cli.flags import Output
from scheduler.cli.inputs import cmdio
from scheduler.cli.inputs.access import ClusterOptions
from scheduler.cli.inputs.aftermoves import AfterMoves, plan_command
from scheduler.cli.inputs.clusterflags import cluster_options
from scheduler.cli.inputs.files import read_text, shown
from scheduler.cli.inputs.source import SnapshotSource, read_source, workload_title
from scheduler.cli.jobs.parallel import answer_lines, processors
from scheduler.cli.output.progress import progress
from scheduler.engine.attempt.cycle import Ties
from scheduler.explain.folds import racks_of
from scheduler.explain.report import diff_line, diff_table, offers_line, summary_line
from scheduler.explain.simrows import simulation_tables
from scheduler.explain.texttable import TextTable
from scheduler.intree import registry
from scheduler.moves.goals import FitGoal
from scheduler.simulate.batch import Batch
from scheduler.simulate.diff import diff
from scheduler.simulate.offers import NodeOffer, OfferReport, cheapest, pods_wait, read_offers
from scheduler.simulate.records import Result, Simulation
from scheduler.simulate.simulate import simulate as place
from scheduler.simulate.simulate import simulate_stage
from scheduler.simulate.stage import AnswerOptions, Setup, staged
from scheduler.snapshot.changes import changed
from scheduler.snapshot.snapshot import Snapshot

EXIT_DIFFERS: Final = 1


def simulate(flags: SimulateFlags) -> int:
    """Place the pending pods of the cluster or of a snapshot, without changing anything."""
    cmdio.be_quick()
    filename, nodes, form = flags.filename, flags.nodes, flags.output
    wanted = cmdio.options(
        flags.now,
        Ties(flags.ties),
        flags.seed,
        details=flags.details,
        kubernetes=flags.kubernetes,
    )
    if flags.batch:
        if flags.snapshot or filename or flags.against or any(nodes):
            raise InputError(
                "--batch goes without --snapshot, -f and what changes or compares them"
            )
        return _batch(flags.batch, flags.config, wanted)
    if form is ResultForm.HTML and not flags.against and not flags.trace:
        raise InputError(
            "a page compares: name another configuration by --against", where="-o html"
        )
    if form.is_for_autoscalers and (not nodes.offer_nodes or flags.trace):
        text = "a request is for nodes on offer: name them by --offer-nodes"
        raise InputError(text, where=f"-o {form}")
    models = cmdio.node_models(nodes)
    access = cluster_options(flags.cluster)
    source = SnapshotSource(access, flags.snapshot or (), filename or ())
    if flags.trace and not flags.snapshot and filename:
        # A trace plays on nodes of its own; it has no live cluster.
        raise InputError("--trace plays on --snapshot F")
    if nodes.offer_nodes and flags.against and not flags.trace:
        raise InputError("--offer-nodes and --against exclude one another")
    setups = _setups(flags, access if source.is_live else None)
    moves = AfterMoves()
    seen = read_source(source, wanted, setups=setups, note=moves.note)
    wanted = seen.options
    snapshot = changed(seen.snapshot, cmdio.node_changes(nodes, models))
    if flags.trace:
        from scheduler.cli.verbs.plan.traces import play_trace

        if nodes.offer_nodes or flags.details:
            raise InputError("--trace goes without --offer-nodes and --details")
        return play_trace(flags, snapshot, wanted)
    if flags.against:
        return _compare(snapshot, flags, setups, wanted)
    (setup,) = setups
    if nodes.offer_nodes:
        offers = read_offers(nodes.offer_nodes, snapshot, models)
        # A node that no pod needs does not help.
        most = len(staged(snapshot, setup, wanted).pending)
        with progress("trying the nodes on offer"):
            best = cheapest(snapshot, offers, pods_wait(setup, wanted), most)
        if form.is_for_autoscalers:
            as_buffers = form is ResultForm.CAPACITY_BUFFER
            return _request(best, offers, snapshot, setup, wanted, as_buffers=as_buffers)
        return cmdio.show_offers(best, Output(form))
    output = Output(form)
    stage = staged(snapshot, setup, wanted)
    cmdio.print_stderr(f"notice: {notice}" for notice in stage.notices)
    with progress("placing the pods that wait"):
        simulation = simulate_stage(stage, wanted)
    names = (f"{pod.key} {pod.node}" for pod in simulation.pods if pod.node)
    if not cmdio.is_shown(simulation, output, names):
        cmdio.show_tables(_tables(simulation, snapshot, output), output)
        cmdio.print_stderr([summary_line(simulation)])
        if not simulation.fits and not any(nodes):
            cmdio.print_stderr(
                _after_moves(simulation, snapshot, moves, setup, wanted, source.files)
            )
    if not simulation.fits:
        return cmdio.EXIT_DOES_NOT_FIT
    return 0 if simulation.is_proven else cmdio.EXIT_UNPROVEN


def _after_moves(
    simulation: Simulation,
    snapshot: Snapshot,
    moves: AfterMoves,
    setup: Setup,
    wanted: AnswerOptions,
    files: Sequence[str],
) -> list[str]:
    """Return a line if moves of running pods make the first pod without a node, or its group, fit
    beside the pods that were placed.
    """
    left = [pod for pod in simulation.pods if pod.result is Result.UNSCHEDULABLE]
    if not left or any(pod.victims or pod.nominated_node for pod in simulation.pods):
        return []
    nodes = {pod.key: pod.node for pod in simulation.pods if pod.node}
    placed = tuple(
        replace(pod, spec=replace(pod.spec, node_name=nodes[pod.key]))
        for pod in snapshot.unbound
        if pod.key in nodes
    )
    waiting = tuple(pod for pod in snapshot.unbound if pod.key not in nodes)
    after = replace(snapshot, bound=(*snapshot.bound, *placed), unbound=waiting, given=frozenset())
    first = left[0]
    statement = moves.statement(after, setup, FitGoal(first.key), wanted)
    if not statement:
        return []
    plan = "" if placed else f". {plan_command(first.key, files)}"
    return [f"{first.group or first.key} fits after {statement}{plan}"]


def _request(
    best: OfferReport,
    offers: Sequence[NodeOffer],
    snapshot: Snapshot,
    setup: Setup,
    wanted: AnswerOptions,
    *,
    as_buffers: bool,
) -> int:
    """Print the objects that request the nodes of the cheapest offer; return the exit code."""
    import yaml

    from scheduler.simulate.provisioning import provisioning_requests

    chosen = next((one for one in best.offers if one.nodes is not None), None)
    if chosen is None or chosen.nodes is None:
        cmdio.print_stderr([offers_line(best)])
        return 0 if best.solves else cmdio.EXIT_DOES_NOT_FIT
    model = next(one.node for one in offers if one.name == chosen.node)
    made = provisioning_requests(
        snapshot, model, chosen.nodes, setup, wanted, as_buffers=as_buffers
    )
    print(yaml.safe_dump_all(made, sort_keys=False, default_flow_style=False), end="")
    cmdio.print_stderr([offers_line(best)])
    return 0


def _tables(simulation: Simulation, snapshot: Snapshot, output: Output) -> list[TextTable]:
    if not simulation.pods:
        cmdio.print_stderr(["no pod waits"])
        return []
    placed = {pod.key: pod for pod in (*snapshot.unbound, *snapshot.bound)}
    shown = [placed[pod.key] for pod in simulation.pods if pod.key in placed]
    groups = {pod.key: pod.group for pod in simulation.pods if pod.group}
    return simulation_tables(
        simulation,
        wide=output is Output.WIDE,
        groups=groups,
        workloads={pod.key: workload for pod in shown if (workload := workload_title(pod))},
        racks=racks_of(snapshot.nodes),
    )


def _setups(flags: SimulateFlags, access: ClusterOptions | None) -> tuple[Setup, ...]:
    """Return the configuration of the answer, the two that `--against` compares, or none for a
    trace, which reads its own.
    """
    if flags.trace:
        return ()
    if flags.against:
        first, second = (
            cmdio.setups(flags.config),
            cmdio.read_setup(flags.against, registry()),
        )
        return first.default, second
    return (cmdio.setups(flags.config, access).default,)


def _compare(
    snapshot: Snapshot, flags: SimulateFlags, setups: Sequence[Setup], wanted: AnswerOptions
) -> int:
    first, second = setups
    config, against, form = flags.config, flags.against, flags.output
    wanted = msgspec.structs.replace(wanted, scores=form is ResultForm.HTML)
    before, after = place(snapshot, first, wanted), place(snapshot, second, wanted)
    found = diff(before, after)
    if form is ResultForm.HTML:
        from scheduler.cli.output.comparison import html, side

        one = side(shown(config) if config else "the default configuration", snapshot, before)
        print(html(one, side(shown(against), snapshot, after)), end="")
        cmdio.print_stderr([diff_line(found)])
        return 0 if found.is_same else EXIT_DIFFERS
    if not cmdio.is_shown(found, Output(form), (pod.key for pod in found.pods)):
        if found.pods:
            cmdio.show_tables([diff_table(found)])
        cmdio.print_stderr([diff_line(found)])
    return 0 if found.is_same else EXIT_DIFFERS


def _batch(name: str, config: str, wanted: AnswerOptions) -> int:
    """Answer line by line; a case that does not fit or is invalid is reported in its own answer."""
    answering = Batch(cmdio.setups(config), wanted, read_text)
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
