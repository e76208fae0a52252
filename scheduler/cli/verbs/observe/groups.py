"""`trellis groups [NAME]`: groups with members, domains, and the proof or the reason for waiting.

Pending groups are planned here, by the daemon's own engine, from the objects that the user may read
or from a snapshot's files. Nothing is written to the cluster. Groups that do not fit come first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler.base.errors import MissingError
from scheduler.base.text import did_you_mean
from scheduler.cli.commands import GroupsFlags
from scheduler.cli.flags import Output
from scheduler.cli.inputs import cmdio
from scheduler.cli.inputs.clusterflags import cluster_options
from scheduler.cli.inputs.source import SeenSnapshot, SnapshotSource, pods_named, read_source
from scheduler.cli.output.printing import show_document
from scheduler.cli.output.progress import progress
from scheduler.cli.output.watching import repeated
from scheduler.engine.attempt.cycle import Ties
from scheduler.explain.folds import racks_of
from scheduler.explain.grouprows import (
    group_where,
    in_order,
    is_missing,
    placed,
    pods_text,
    proof_text,
    short_message,
    shown_status,
    waits,
)
from scheduler.explain.texttable import TextTable
from scheduler.framework.groups import GroupReport
from scheduler.groups.sources import registry as sources
from scheduler.simulate.simulate import simulate
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.targets import GROUP, Target, kind_called, target_of


def groups(flags: GroupsFlags) -> int:
    """List the groups with members, placement, proof or conflict."""
    cmdio.be_quick()
    target = target_of(flags.words, flags.namespace) if flags.words else None
    access = cluster_options(flags.cluster, target.namespace if target else flags.namespace)
    source = SnapshotSource(access, flags.snapshot or (), flags.filename or ())
    setup = cmdio.setups(flags.config, access if source.is_live else None).default
    wanted = cmdio.options(flags.now, Ties.NAME, None, details=False)
    racks: dict[str, str] = {}
    listed: list[GroupReport] = []

    def look() -> list[dict[str, Any]]:
        nonlocal racks, listed
        seen = read_source(source, wanted, setups=(setup,))
        racks = racks_of(seen.snapshot.nodes)
        with progress("planning the groups that wait"):
            found = simulate(seen.snapshot, setup, seen.options).groups
        listed = _selected(list(found), seen, target, flags)
        return [msgspec.to_builtins(one) | {"solverSeconds": 0} for one in listed]

    def show() -> None:
        _show(listed, racks, flags, is_one=target is not None)

    repeated(look, show, is_watched=flags.watch and source.is_live)
    return 0


def _selected(
    found: list[GroupReport], seen: SeenSnapshot, target: Target | None, flags: GroupsFlags
) -> list[GroupReport]:
    if target is not None:
        named = target._replace(namespace=target.namespace or seen.namespace)
        return _of_target(found, seen.snapshot, named)
    space = "" if flags.all_namespaces else flags.namespace
    kept = [one for one in found if not space or one.namespace == space]
    return [one for one in kept if waits(one)] if flags.failed else kept


def _of_target(found: list[GroupReport], snapshot: Snapshot, target: Target) -> list[GroupReport]:
    """Return the group of this name, else the groups of a workload's pods."""
    if target.kind in ("", GROUP):
        key = (target.namespace, target.name)
        own = [one for one in found if (one.namespace, one.name) == key]
        if own:
            return own
        if target.kind:
            hint = did_you_mean(target.name, (one.name for one in found))
            raise MissingError(f"no such group{hint}", where="/".join(key))
    titles = {sources.title_of(pod) for pod in pods_named(snapshot, target)}
    own = [one for one in found if f"{one.namespace}/{one.name}" in titles]
    if not own:
        raise MissingError("its pods are in no group", where=f"{target.namespace}/{target.name}")
    return own


def _show(
    listed: list[GroupReport], racks: Mapping[str, str], flags: GroupsFlags, *, is_one: bool
) -> None:
    output = flags.output
    if output in (Output.JSON, Output.YAML):
        items = [msgspec.to_builtins(one) for one in listed]
        show_document({"kind": "GroupList", "items": items}, output)
    elif output is Output.NAME:
        for one in listed:
            kind = one.source.partition(".")[0].lower()
            known = kind if kind_called(kind) == GROUP else GROUP.lower()
            print(f"{known}/{one.namespace}/{one.name}")
    elif not listed:
        cmdio.print_stderr(["no group waits" if flags.failed else "no groups"])
    elif is_one:
        for one in listed:
            print(*_lines(one, racks), sep="\n")
    else:
        rows = [_row(one, racks, is_wide=output is Output.WIDE) for one in in_order(listed)]
        titles = ["namespace", "name", "status", "pods", "where", "proof"]
        titles += ["source", "conflict"] if output is Output.WIDE else []
        cmdio.show_tables([TextTable([*titles, "message"], rows, optional=("proof",))], output)


def _row(one: GroupReport, racks: Mapping[str, str], *, is_wide: bool) -> list[str]:
    row = [one.namespace, one.name, shown_status(one), pods_text(one)]
    row += [group_where(one, racks), proof_text(one)]
    if is_wide:
        row += [one.source, ", ".join(one.conflict)]
    return [*row, one.message if is_wide else short_message(one)]


def _lines(one: GroupReport, racks: Mapping[str, str]) -> list[str]:
    """Return the details of one group, one line each."""
    points = [
        ("status", shown_status(one)),
        ("members", _members_text(one)),
        ("source", one.source),
        ("where", group_where(one, racks)),
        ("proof", proof_text(one)),
        ("conflict", ", ".join(one.conflict)),
        ("fits as", f"a group of {one.would_fit}" if one.would_fit else ""),
        ("message", one.message),
    ]
    shown = [(name, text) for name, text in points if text]
    return [f"{one.namespace}/{one.name}", *(f"  {f'{name}:':<10}{text}" for name, text in shown)]


def _members_text(one: GroupReport) -> str:
    """Return the numbers of members with a node, with a planned node, and finished."""
    if is_missing(one):
        return ""
    needed = f"{one.minimum}{'' if one.maximum else ' or more'}"
    parts = [f"{placed(one) - one.planned} of {needed} have a node"]
    parts += [f"{one.planned} would get one now"] if one.planned else []
    parts += [f"{one.finished} have finished"] if one.finished else []
    return ", ".join(parts)
