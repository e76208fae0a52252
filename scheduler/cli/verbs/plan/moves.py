"""`trellis moves`: the fewest relocations of running pods that reach a goal, as a plan with its
proof.

Of a snapshot, or of what the user may read in the cluster; nothing is evicted. Exit codes: 0 the
goal is reached or planned; 2 a file is invalid; 3 no plan reaches it; 4 the time limit ended the
search, or the plan is not proven.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.base.errors import InputError
from scheduler.cli.commands import MovesFlags, MovesForm
from scheduler.cli.flags import Output
from scheduler.cli.inputs import cmdio
from scheduler.cli.inputs.access import ClusterOptions
from scheduler.cli.inputs.clusterflags import cluster_options
from scheduler.cli.inputs.live import look
from scheduler.cli.output.printing import show_document
from scheduler.engine.attempt.cycle import Ties
from scheduler.explain.texttable import TextTable
from scheduler.moves.eligible import ALLOWANCES, MoveRules
from scheduler.moves.facts import ClusterFacts
from scheduler.moves.finding import MoveOptions, find_moves
from scheduler.moves.goals import (
    CapacityGoal,
    FitGoal,
    FreeGoal,
    LoadGoal,
    MoveGoal,
    RepairGoal,
)
from scheduler.moves.records import MovesReport
from scheduler.objects.kinds import MOVE_PLAN, Kind
from scheduler.objects.moves.moveplan import (
    FreeNodesGoal,
    LoadBelowGoal,
    MovePlanSpec,
    PlanGoal,
    PlanLimits,
)
from scheduler.objects.moves.moveplan import RepairGoal as PlanRepairGoal
from scheduler.objects.workloads import Service
from scheduler.simulate.copies import shape_of
from scheduler.simulate.derive import with_derived_groups
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.documents import SourceFile, items_of
from scheduler.snapshot.snapshot import Snapshot, SnapshotReader

MOST_MOVES = 200  # of a MovePlan, by its schema
# Read for their failure policies alone, never as structs.
JOB = Kind("Job", "batch", "v1", "jobs", Service, required=False)


def moves(flags: MovesFlags) -> int:
    """Plan the fewest relocations of running pods that reach a goal."""
    cmdio.be_quick()
    facts = ClusterFacts()
    wanted = cmdio.options(flags.now, Ties.NAME, None, details=False, kubernetes=flags.kubernetes)
    access = cluster_options(flags.cluster, flags.namespace)
    setup = cmdio.setups(flags.config, None if flags.snapshot else access).default
    if flags.snapshot:
        snapshot = cmdio.read_files(flags.snapshot, flags.filename, facts.take)
        home = "default"
    else:
        snapshot, home, wanted = _read_live(access, flags, facts, wanted, setup)
    snapshot = with_derived_groups(snapshot, setup.loaded)
    cmdio.print_stderr(f"notice: {notice}" for notice in snapshot.notices)
    goal = _goal(flags, snapshot, flags.namespace or home)
    if isinstance(goal, CapacityGoal):
        given = snapshot.given
        snapshot = replace(
            snapshot,
            unbound=tuple(pod for pod in snapshot.unbound if pod.metadata.uid not in given),
            given=frozenset(),
        )
    if flags.output is MovesForm.MOVEPLAN and isinstance(goal, CapacityGoal):
        raise InputError("a MovePlan has no goal for copies of a shape", where="--capacity")
    report = find_moves(snapshot, facts, setup, goal, _options(flags), wanted)
    if flags.output is MovesForm.MOVEPLAN:
        cmdio.print_stderr(headlines(report))
        show_document(move_plan(goal, flags), Output.YAML)
    else:
        _show(report, flags.output, snapshot, setup, wanted)
    if report.verdict in ("impossible", "chained"):
        return cmdio.EXIT_DOES_NOT_FIT
    return 0 if report.proven else cmdio.EXIT_UNPROVEN


def _options(flags: MovesFlags) -> MoveOptions:
    unknown = sorted(set(flags.allow or ()) - set(ALLOWANCES))
    if unknown:
        known = ", ".join(ALLOWANCES)
        raise InputError(f"{unknown[0]!r:.60} is not one of {known}", where="--allow")
    rules = MoveRules(
        allowed=frozenset(flags.allow or ()), namespaces=frozenset(flags.from_namespaces or ())
    )
    return MoveOptions(rules, flags.most, flags.seconds)


def _goal(flags: MovesFlags, snapshot: Snapshot, namespace: str) -> MoveGoal:
    """Return the one goal that the flags name."""
    found: list[MoveGoal] = []
    if flags.waiting:
        key = flags.waiting if "/" in flags.waiting else f"{namespace}/{flags.waiting}"
        found.append(FitGoal(key))
    if flags.free:
        found.append(FreeGoal(flags.free, flags.level, tuple(_labels(flags.selector))))
    if flags.capacity:
        shape = shape_of(snapshot)
        if flags.capacity > shape.most:
            raise InputError(f"at most {shape.most} copies of {shape.name}", where="--capacity")
        found.append(CapacityGoal(flags.capacity, shape.name, shape.pods))
    if flags.load_below:
        if flags.resource not in ("cpu", "memory"):
            raise InputError("cpu or memory is measured", where="--resource")
        found.append(LoadGoal(flags.load_below, flags.resource))
    if flags.repair:
        found.append(RepairGoal())
    if len(found) != 1:
        raise InputError(
            "name one goal: a pod or group that waits, --free N, --capacity N -f SHAPE, "
            "--load-below PERCENT or --repair"
        )
    return found[0]


def _labels(text: str) -> Iterator[tuple[str, str]]:
    for one in filter(None, text.split(",")):
        key, found, value = one.partition("=")
        if not found or not key:
            raise InputError(f"labels are named as KEY=VALUE, not {one!r:.80}", where="--selector")
        yield key, value


def _read_live(
    access: ClusterOptions,
    flags: MovesFlags,
    facts: ClusterFacts,
    wanted: AnswerOptions,
    setup: Setup,
) -> tuple[Snapshot, str, AnswerOptions]:
    """Read the cluster with the rights of the user, and its Jobs for their failure policies.

    Jobs also describe groups if the configuration derives groups from them.
    """
    reader = SnapshotReader()
    kinds = cmdio.listed_kinds(setup)
    derives_jobs = any(kind.kind == JOB.kind for kind in kinds)

    def take(page: SourceFile) -> None:
        for item in items_of(page):
            facts.take(item)
            if derives_jobs or item.head.kind != JOB.kind:
                reader.read((item,), are_live=True)

    seen = look(access, kinds if derives_jobs else (*kinds, JOB), take)
    given = list(cmdio.items_in(flags.filename or ()))
    for item in given:
        facts.take(item)
    reader.read(given, are_given=True)
    return reader.snapshot(), seen.namespace, cmdio.taken_at(wanted, seen)


def move_plan(goal: MoveGoal, flags: MovesFlags) -> dict[str, Any]:
    """Return the MovePlan with the goal and the limits of the flags, as a manifest."""
    wanted, name = _plan_goal(goal)
    spec = MovePlanSpec(
        wanted,
        PlanLimits(
            max_moves=min(flags.most, MOST_MOVES), search_seconds=max(1, int(flags.seconds))
        ),
        namespaces=tuple(flags.from_namespaces or ()),
        allow=tuple(flags.allow or ()),
    )
    meta = {"name": re.sub(r"[^a-z0-9.-]+", "-", name.lower())[:200].strip("-.")}
    kind = {"apiVersion": MOVE_PLAN.api_version, "kind": MOVE_PLAN.kind}
    return {**kind, "metadata": meta, "spec": msgspec.to_builtins(spec)}


def _plan_goal(goal: MoveGoal) -> tuple[PlanGoal, str]:
    """Return a goal as a MovePlan states it, and a name for the plan."""
    if isinstance(goal, FitGoal):
        return PlanGoal(waiting=goal.key), f"fit-{goal.key}"
    if isinstance(goal, FreeGoal):
        free = FreeNodesGoal(goal.number, goal.label, dict(goal.selector))
        return PlanGoal(free_nodes=free), f"free-{goal.number}-{goal.label or 'nodes'}"
    if isinstance(goal, LoadGoal):
        below = LoadBelowGoal(goal.percent, goal.resource)
        return PlanGoal(load_below=below), f"{goal.resource}-below-{goal.percent}"
    return PlanGoal(repair=PlanRepairGoal()), "repair"


def _show(
    report: MovesReport,
    form: MovesForm,
    snapshot: Snapshot,
    setup: Setup,
    wanted: AnswerOptions,
) -> None:
    if form is MovesForm.HTML:
        print(_page(report, snapshot, setup, wanted), end="")
        return
    if cmdio.is_shown(report, Output(form), (f"{one.pod} {one.target}" for one in report.moves)):
        return
    cmdio.print_stderr(f"notice: {notice}" for notice in report.notices)
    print(*headlines(report), sep="\n")
    tables = list(_tables(report, wide=form is MovesForm.WIDE))
    if tables:
        print()
        cmdio.show_tables(tables)


def headlines(report: MovesReport) -> list[str]:
    """Return the goal, its state before and after, and the proof."""
    states = f"{report.before} -> {report.after}" if report.after else report.before
    return [f"goal: {report.goal}", f"now: {states}", f"plan: {report.statement}"]


def _tables(report: MovesReport, *, wide: bool) -> Iterator[TextTable]:
    if report.moves:
        titles = ["", "pod", "from", "to", "priority", "run time lost"]
        rows = [
            [
                str(one.order),
                one.pod,
                one.source,
                one.target,
                str(one.priority),
                _age(one.lost_seconds),
            ]
            for one in report.moves
        ]
        yield TextTable(titles, rows)
    if report.placed:
        rows = [[one.pod, one.node] for one in report.placed]
        yield TextTable(["waiting pod", "fits"], rows)
    if report.freed:
        yield TextTable(["free"], [[one] for one in report.freed])
    if report.excluded:
        heading = f"{report.movable} pods may move; the others stay:"
        rows = [
            [str(one.pods), one.reason, ", ".join(one.examples if wide else one.examples[:1])]
            for one in report.excluded
        ]
        yield TextTable(["pods", "reason", "example"], rows, heading)


def _age(seconds: int) -> str:
    if seconds < 3600:
        return f"{seconds // 60}m"
    return f"{seconds // 3600}h" if seconds < 172_800 else f"{seconds // 86_400}d"


def _page(report: MovesReport, snapshot: Snapshot, setup: Setup, wanted: AnswerOptions) -> str:
    """Return a page with the cluster before and after the moves."""
    from scheduler.cli.output.comparison import html, side
    from scheduler.simulate.simulate import simulate

    targets = {one.pod: one.target for one in report.moves}
    moved = tuple(
        replace(pod, spec=replace(pod.spec, node_name=targets[pod.key]))
        if pod.key in targets
        else pod
        for pod in snapshot.bound
    )
    after = replace(snapshot, bound=moved)
    scored = replace(wanted, scores=True)
    first = side("before the moves", snapshot, simulate(snapshot, setup, scored))
    return html(first, side(report.statement, after, simulate(after, setup, scored)))
