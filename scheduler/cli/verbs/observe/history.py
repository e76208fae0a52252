"""`trellis history TYPE/NAME`: every attempt at a pod that is known, oldest first, with its result.

Read from the running daemon, which keeps the last attempts of all pods, or from a decision log,
which has all. Exit codes: 0 at least one attempt is known, 1 none.
"""

from urllib.parse import quote

import msgspec

from scheduler.base.errors import InputError
from scheduler.cli.commands import HistoryFlags
from scheduler.cli.flags import DaemonFlags, Output
from scheduler.cli.inputs.clusterflags import cluster_options
from scheduler.cli.inputs.cmdio import be_quick, is_shown, items_in, print_stderr, show_tables
from scheduler.cli.inputs.logged import LogView
from scheduler.cli.inputs.past import NAMESPACE, request
from scheduler.cli.verbs.observe.explain import pod_of
from scheduler.explain.attempts import History, PastAttempt
from scheduler.explain.attempts import history as found_in
from scheduler.explain.texttable import TextTable
from scheduler.objects.plain import plain_data
from scheduler.snapshot.targets import Target, kind_called, target_of

_history = msgspec.json.Decoder(History)


def history(flags: HistoryFlags) -> int:
    """List the attempts at a pod with their results."""
    target = _target(flags)
    if flags.decision_log:
        if flags.where != DaemonFlags():
            raise InputError("--decision-log asks a file; it goes without a daemon")
        be_quick()
        past = LogView(flags.decision_log)
        print_stderr(f"notice: {notice}" for notice in past.notices)
        found = found_in(past.attempts(), target.namespace or "default", target.name)
    else:
        name, access = pod_of(target, cluster_options(flags.cluster, target.namespace))
        path = f"/debug/history/{NAMESPACE}/{quote(name, safe='')}"
        answer = request(flags.where, access, path)
        try:
            found = _history.decode(answer)
        except msgspec.MsgspecError as error:
            text = f"not what a daemon of this version answers: {error}"
            raise InputError(text) from error
    _show(found, flags.output)
    return 0 if found.attempts else 1


def _target(flags: HistoryFlags) -> Target:
    """Return the target of the arguments, else the first object with pods in the files of `-f`."""
    if flags.words:
        return target_of(flags.words, flags.namespace)
    for item in items_in(flags.filename or ()):
        kind = kind_called(item.head.kind or "")
        raw = msgspec.json.decode(item.raw) if isinstance(item.raw, bytes) else item.raw
        meta = plain_data(raw).get("metadata") or {}
        if kind and meta.get("name"):
            return Target(kind, flags.namespace or meta.get("namespace") or "", str(meta["name"]))
    raise InputError("name a pod, a workload or a group: NAME, TYPE/NAME or -f FILE")


def _show(found: History, output: Output) -> None:
    if not found.attempts and output not in (Output.JSON, Output.YAML):
        since = f" since {found.kept_since}" if found.kept_since else ""
        print_stderr([f"no attempt at {found.namespace}/{found.name} is known{since}"])
    elif not is_shown(found, output, (one.node or "" for one in found.attempts)):
        titles = ["attempt", "at", "node", "nodes that fit", "why"]
        show_tables([TextTable(titles, [_row(one) for one in found.attempts])], output)


def _row(one: PastAttempt) -> list[str]:
    first = one.attempts - one.times + 1
    numbers = str(first) if one.times == 1 else f"{first}-{one.attempts}"
    when = one.since if one.times == 1 or one.since == one.at else f"{one.since} to {one.at}"
    why = one.message
    if one.nominated_node:
        gone = ", ".join(f"{pod.namespace}/{pod.name}" for pod in one.victims)
        why += f" (nominated to {one.nominated_node}" + (f" in place of {gone})" if gone else ")")
    # A group's plan chooses the node of a member without counting feasible nodes.
    is_counted = bool(one.all_nodes) and (bool(one.feasible_nodes) or not one.node)
    feasible = f"{one.feasible_nodes} of {one.all_nodes}" if is_counted else ""
    return [numbers, when, one.node or "", feasible, why]
