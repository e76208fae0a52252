"""`trellis explain POD`: node by node, why a pod is where it is, or why it is nowhere.

Computed here, by the scheduler's own code: from a snapshot's files, or from what the user may read in
the cluster; with `--past` as the daemon saw it then. Exit code 3 when there is no node for the pod.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from scheduler.base.errors import InputError
from scheduler.cli import asking
from scheduler.cli.commands import ExplainFlags
from scheduler.cli.flags import Output
from scheduler.cli.live import ClusterOptions, reach
from scheduler.cli.past import ask
from scheduler.engine.attempt.cycle import Ties
from scheduler.explain.explain import Explanation
from scheduler.explain.explain import explain as explained
from scheduler.explain.past import counts_table, past_decision, past_line
from scheduler.explain.report import TextTable, explanation_lines, explanation_tables
from scheduler.objects.kinds import POD
from scheduler.simulate.stage import AnswerOptions
from scheduler.snapshot.snapshot import Snapshot, SnapshotReader

# What the API server takes for a pod's name: anything else would be more than a name in a selector.
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?\Z")


def explain(flags: ExplainFlags) -> int:
    """Tell why a pod is where it is, or why it is pending."""
    asking.be_quick()
    given, _, name = flags.pod.rpartition("/")
    namespace = given or flags.namespace
    is_live = not flags.snapshot and not flags.filename
    if flags.past or flags.where.daemon:
        if not is_live or flags.config or flags.now:
            raise InputError("--past asks the daemon; it goes without files, --config and --now")
        answer = ask(flags.where, reach(flags.cluster, namespace), name)
        found, notices = past_decision(answer, node=flags.node)
        return _show(found, notices, [past_line(found)], flags, counts_table(found))
    # Of equal nodes a live cluster's daemon takes the one that the pod's uid picks.
    ties = Ties.UID if is_live else Ties.NAME
    wanted = asking.options(flags.now, ties, None, details=True, kubernetes=flags.kubernetes)
    access = reach(flags.cluster, namespace)
    setup = asking.setups(flags.config, access if is_live else None).default
    if not is_live:
        world, home = asking.read_files(flags.snapshot, flags.filename), "default"
    else:
        world, home, wanted = _read_live(access, wanted, name)
    key = f"{namespace or home}/{name}"
    computed = explained(world, setup, key, wanted, node=flags.node)
    return _show(
        computed.explanation, computed.notices, explanation_lines(computed.explanation), flags
    )


def _read_live(
    access: ClusterOptions, wanted: AnswerOptions, name: str
) -> tuple[Snapshot, str, AnswerOptions]:
    reader = SnapshotReader()
    seen = asking.read_cluster(access, reader)
    snapshot = reader.snapshot()
    if snapshot.find(f"{access.namespace or seen.namespace}/{name}") is None and _NAME.match(name):
        # Pods that have ended are not listed; the one asked about may be one of them.
        asked = f"metadata.name={name},status.phase!=Pending,status.phase!=Running"
        asking.read_cluster(access, reader, (replace(POD, field_selector=asked),))
        snapshot = reader.snapshot()
    return snapshot, seen.namespace, asking.taken_at(wanted, seen)


def _show(
    found: Explanation,
    notices: Iterable[str],
    lines: Sequence[str],
    flags: ExplainFlags,
    otherwise: Sequence[TextTable] = (),
) -> int:
    """Print an explanation, or `otherwise` where it says nothing of single nodes; return the exit code."""
    asking.tell(f"notice: {notice}" for notice in notices)
    if not asking.is_shown(found, flags.output, (found.node or "",)):
        print(*lines, sep="\n")
        wide, one_node = flags.output is Output.WIDE, bool(flags.node)
        tables = explanation_tables(found, wide=wide, one_node=one_node) or otherwise
        if tables:
            print()
            asking.show_tables(tables)
    return 0 if found.fits else asking.EXIT_DOES_NOT_FIT
