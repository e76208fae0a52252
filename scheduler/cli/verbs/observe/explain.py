"""`trellis explain TYPE/NAME`: node by node, why a pod or a group is where it is, or why it waits.

Computed here by the scheduler's own code from what the user may read in the cluster, or from a
snapshot's files; with `--past` as the daemon saw it. Exit code 3 when no node fits.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from scheduler.base.errors import InputError, MissingError
from scheduler.cli.commands import ExplainFlags
from scheduler.cli.flags import Output
from scheduler.cli.inputs import cmdio
from scheduler.cli.inputs.access import ClusterOptions
from scheduler.cli.inputs.aftermoves import AfterMoves, plan_command
from scheduler.cli.inputs.clusterflags import cluster_options
from scheduler.cli.inputs.source import (
    SeenSnapshot,
    SnapshotSource,
    chosen_pod,
    given_pod,
    read_source,
)
from scheduler.cli.output.progress import progress
from scheduler.cli.output.watching import repeated
from scheduler.engine.attempt.cycle import Ties
from scheduler.explain.explain import ExplainAnswer, Explanation
from scheduler.explain.explain import explain as explained
from scheduler.explain.past import counts_table, past_decision, past_line
from scheduler.explain.report import explanation_lines, explanation_tables
from scheduler.explain.texttable import TextTable
from scheduler.moves.goals import FitGoal
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.targets import POD, Target, pods_of, target_of


def explain(flags: ExplainFlags) -> int:
    """Explain why a pod or a group is where it is, or why it is pending."""
    cmdio.be_quick()
    if flags.past or flags.where.daemon:
        return _past(flags)
    if not flags.words and not flags.filename:
        raise InputError("name what to explain: NAME, TYPE/NAME or -f FILE")
    target = target_of(flags.words, flags.namespace) if flags.words else None
    access = cluster_options(flags.cluster, target.namespace if target else flags.namespace)
    source = SnapshotSource(access, flags.snapshot or (), flags.filename or ())
    # Of equal nodes, the daemon of a live cluster chooses by the pod's uid.
    ties = Ties.UID if source.is_live else Ties.NAME
    wanted = cmdio.options(flags.now, ties, None, details=True, kubernetes=flags.kubernetes)
    setup = cmdio.setups(flags.config, access if source.is_live else None).default
    advice: list[str] = []

    def answer() -> ExplainAnswer:
        moves = AfterMoves()
        seen = read_source(source, wanted, setups=(setup,), note=moves.note)
        key = _key(seen, target)
        if _is_given(seen.snapshot, key):
            # Its uid is not known yet, so the lowest name decides, as in `simulate`.
            seen = seen._replace(options=replace(seen.options, ties=Ties.NAME))
        with progress(f"explaining {key}"):
            found = explained(seen.snapshot, setup, key, seen.options, node=flags.node)
            # One MovePlan is executed at a time: a live one is named instead of another.
            is_open = not (found.explanation.fits or found.explanation.moves or flags.node)
            advice[:] = _after_moves(seen, moves, setup, key, source.files) if is_open else ()
        return found

    return _shown(answer, flags, advice, is_watched=flags.watch and source.is_live)


def _is_given(snapshot: Snapshot, key: str) -> bool:
    return any(one.key == key and one.metadata.uid in snapshot.given for one in snapshot.unbound)


def _after_moves(
    seen: SeenSnapshot, moves: AfterMoves, setup: Setup, key: str, files: Sequence[str]
) -> list[str]:
    """Return a line if moves of running pods make a waiting pod fit; none in a large cluster."""
    if not any(pod.key == key for pod in seen.snapshot.unbound):
        return []
    statement = moves.statement(seen.snapshot, setup, FitGoal(key), seen.options)
    return [f"It fits after {statement}. {plan_command(key, files)}"] if statement else []


def _key(seen: SeenSnapshot, target: Target | None) -> str:
    """Return the pod to explain: the named one, else a representative of the workload or group."""
    if target is None:
        return given_pod(seen.snapshot).key
    named = target._replace(namespace=target.namespace or seen.namespace)
    try:
        _refuse_finished(seen.snapshot, named)
        return chosen_pod(seen.snapshot, named).key
    except MissingError:
        if named.kind not in ("", POD):
            raise
        key = f"{named.namespace}/{named.name}"
        if any(pod.key == key for pod in seen.snapshot.ended):
            return key
        raise


def _refuse_finished(snapshot: Snapshot, target: Target) -> None:
    """Raise MissingError for a workload or group whose pods have all ended: none is left to place.

    An ended pod on its own is explained by the node that it ran on.
    """
    pods, ended = pods_of(snapshot, target), {pod.metadata.uid for pod in snapshot.ended}
    if len(pods) > 1 and all(pod.metadata.uid in ended for pod in pods):
        phases = Counter(pod.status.phase for pod in pods)
        counts = ", ".join(f"{number} {phase}" for phase, number in sorted(phases.items()))
        text = f"all {len(pods)} pods have ended ({counts}); they use no capacity any more"
        raise MissingError(text, where=f"{target.namespace}/{target.name}")


def _shown(
    answer: Callable[[], ExplainAnswer],
    flags: ExplainFlags,
    advice: Sequence[str],
    *,
    is_watched: bool,
) -> int:
    found: ExplainAnswer

    def show() -> str:
        nonlocal found
        found = answer()
        return "\n".join((*explanation_lines(found.explanation), *advice))

    def print_() -> None:
        one = found.explanation
        _show(one, found.notices, (*explanation_lines(one), *advice), flags)

    repeated(show, print_, is_watched=is_watched)
    return 0 if found.explanation.fits else cmdio.EXIT_DOES_NOT_FIT


def _past(flags: ExplainFlags) -> int:
    if flags.snapshot or flags.filename or flags.config or flags.now:
        raise InputError("--past asks the daemon; it goes without files, --config and --now")
    target = target_of(flags.words or (), flags.namespace)
    from scheduler.cli.inputs.past import fetch_decision

    name, access = pod_of(target, cluster_options(flags.cluster, target.namespace))
    found, notices = past_decision(fetch_decision(flags.where, access, name), node=flags.node)
    _show(found, notices, [past_line(found)], flags, counts_table(found))
    return 0 if found.fits else cmdio.EXIT_DOES_NOT_FIT


def pod_of(target: Target, access: ClusterOptions) -> tuple[str, ClusterOptions]:
    """Return a target's pod in the live cluster, and the access options for its namespace."""
    if target.kind in ("", POD):
        return target.name, access
    wanted = AnswerOptions()
    seen = read_source(SnapshotSource(access), wanted)
    named = target._replace(namespace=target.namespace or seen.namespace)
    pod = chosen_pod(seen.snapshot, named)
    return pod.metadata.name, access._replace(namespace=pod.metadata.namespace)


def _show(
    found: Explanation,
    notices: Iterable[str],
    lines: Sequence[str],
    flags: ExplainFlags,
    otherwise: Sequence[TextTable] = (),
) -> None:
    """Print an explanation, or `otherwise` if it has no verdicts on nodes."""
    cmdio.print_stderr(f"notice: {notice}" for notice in notices)
    if not cmdio.is_shown(found, flags.output, (found.node,) if found.node else ()):
        print(*lines, sep="\n")
        wide, one_node = flags.output is Output.WIDE, bool(flags.node)
        tables = explanation_tables(found, wide=wide, one_node=one_node) or otherwise
        if tables:
            print()
            cmdio.show_tables(tables, flags.output)
