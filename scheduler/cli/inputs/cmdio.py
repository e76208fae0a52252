"""Inputs and outputs that several commands share: files, configuration, options, tables.

Notices go to stderr, so that stdout contains the answer alone.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.base.errors import InputError
from scheduler.base.release import read_release
from scheduler.cli.flags import NodeFlags, Output
from scheduler.cli.inputs.access import ClusterOptions, SeenCluster
from scheduler.cli.inputs.files import (
    MANIFEST_SUFFIXES,
    manifest_files,
    read_bytes,
    read_text,
    shown,
)
from scheduler.cli.output.printing import show_document, show_table, shown_width
from scheduler.config.every import load_or_report_all
from scheduler.engine.attempt.cycle import Ties
from scheduler.engine.settings import derived_kinds
from scheduler.explain.report import offers_line, offers_tables
from scheduler.explain.texttable import TextTable
from scheduler.framework.registry import Registry
from scheduler.intree import registry
from scheduler.objects.kinds import Kind, derived_from
from scheduler.objects.node import Node
from scheduler.simulate.batch import moment
from scheduler.simulate.offers import OfferReport
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.changes import NodeChanges
from scheduler.snapshot.decoding import READ
from scheduler.snapshot.documents import Item, SourceFile, items_of
from scheduler.snapshot.snapshot import Snapshot, SnapshotReader, read_snapshot

EXIT_DOES_NOT_FIT = 3
EXIT_UNPROVEN = 4
# With a headline and its points a default output fits 40 lines.
MOST_ROWS = 26


def read_files(
    snapshots: Sequence[str] | None,
    pods: Sequence[str] | None,
    note: Callable[[Item], None] | None = None,
) -> Snapshot:
    """Read a snapshot and the pods named apart from it; `note` gets each object as well."""
    names = [*(snapshots or ()), *(pods or ())]
    if names.count("-") > 1:
        raise InputError("standard input can be read once only", where="-")
    cluster, given = items_in(snapshots or ()), items_in(pods or ())
    return read_snapshot(noted(cluster, note), noted(given, note))


def noted(items: Iterable[Item], note: Callable[[Item], None] | None) -> Iterator[Item]:
    """Yield items after `note` has seen them."""
    for item in items:
        if note is not None:
            note(item)
        yield item


def read_cluster(
    access: ClusterOptions,
    reader: SnapshotReader,
    kinds: Iterable[Kind] = READ,
    note: Callable[[Item], None] | None = None,
) -> SeenCluster:
    """Pass all readable objects of a cluster to a reader; `note` receives each of them too."""
    from scheduler.cli.inputs.live import look

    def take(page: SourceFile) -> None:
        reader.read(noted(items_of(page), note), are_live=True)

    seen = look(access, kinds, take)
    if seen.version:
        reader.served_by(seen.version)
    return seen


def listed_kinds(*setups: Setup) -> tuple[Kind, ...]:
    """Return the kinds to list for answers with these configurations.

    These are the kinds of every snapshot, and those from which a profile derives groups.
    """
    derived = (derived_from(derived_kinds(one.loaded)) for one in setups)
    return tuple(dict.fromkeys((*READ, *chain.from_iterable(derived))))


def items_in(names: Iterable[str]) -> Iterator[Item]:
    """Yield the objects of files, and of the manifests of folders."""
    for name in manifest_files(names):
        yield from items_of(SourceFile(shown(name), read_bytes(name)))


def node_models(flags: NodeFlags) -> dict[str, Node]:
    """Return the nodes of the files that the node flags name: each file holds one Node."""
    given = (*(flags.add_nodes or ()), *(flags.offer_nodes or ()))
    names = {text.partition("=")[2] for text in given}
    return {name: _only_node(name) for name in sorted(names) if _is_file(name)}


def node_changes(flags: NodeFlags, models: Mapping[str, Node]) -> NodeChanges:
    """Return the changes to nodes that the flags request, except nodes on offer."""
    added, removed, removed_racks, drained, _ = (tuple(given or ()) for given in flags)
    return NodeChanges(added, removed, removed_racks, drained, models)


def _is_file(name: str) -> bool:
    # Names of nodes contain no slash and rarely end like a manifest's file name.
    return "/" in name or name.endswith(MANIFEST_SUFFIXES)


def _only_node(name: str) -> Node:
    found = read_snapshot(items_in((name,)))
    if len(found.nodes) != 1 or found.objects or found.bound or found.unbound:
        raise InputError("one Node, and nothing else, says what a node to add is like", where=name)
    return found.nodes[0]


def setups(config: str, access: ClusterOptions | None = None) -> Setups:
    """Return the configurations at hand; the default is that of `--config`.

    Without that flag it is the configuration of the daemon in the cluster of `access`, else the
    built-in one.
    """
    known = registry()
    if config or access is None:
        return Setups(known, read_setup(config, known) if config else None)
    from scheduler.cli.inputs.running import running_setup

    found, notice = running_setup(access, known)
    print_stderr([f"notice: {notice}"] * bool(notice))
    return Setups(known, found)


def read_setup(config: str, known: Registry) -> Setup:
    """Read a configuration file."""
    loaded = load_or_report_all(read_text(config), file=shown(config), registry=known)
    print_stderr(f"notice: {notice}" for notice in loaded.notices)
    return Setup(loaded, known)


def options(
    now: str, ties: Ties, seed: int | None, *, details: bool, kubernetes: str = ""
) -> AnswerOptions:
    """Return the answer options from the flags; a seed breaks ties at random, reproducibly."""
    chosen = ties if seed is None else Ties.SEED
    at = moment(now) if now else None
    release = read_release(kubernetes, where="--kubernetes") if kubernetes else None
    return AnswerOptions(now=at, ties=chosen, seed=seed or 0, details=details, release=release)


def show_offers(offers: OfferReport, output: Output) -> int:
    """Print which nodes would do; return the exit code."""
    if not is_shown(offers, output, (one.node for one in offers.offers if one.nodes is not None)):
        print(offers_line(offers))
        show_tables(offers_tables(offers))
    return 0 if offers.solves else EXIT_DOES_NOT_FIT


def taken_at(wanted: AnswerOptions, seen: SeenCluster) -> AnswerOptions:
    """Print which parts of the cluster could not be read; return the options with the cluster's
    time unless another is set.
    """
    print_stderr(f"notice: {notice}" for notice in seen.notices)
    return replace(wanted, now=seen.now) if wanted.now is None else wanted


def print_stderr(lines: Iterable[str]) -> None:
    """Print lines on stderr."""
    for line in lines:
        print(line, file=sys.stderr)


def show_tables(tables: Iterable[TextTable], output: Output = Output.TABLE) -> None:
    """Print tables with their headings, an empty line between them.

    On a terminal a table has at most `MOST_ROWS` rows unless the output is wide.
    """
    is_wide = output is Output.WIDE
    for number, one in enumerate(tables):
        if number:
            print()
        if one.heading:
            print(one.heading)
        most = MOST_ROWS if shown_width() and not is_wide else len(one.rows)
        show_table(one.titles, one.rows[:most], is_wide=is_wide, optional=one.optional)
        if (left := len(one.rows) - most) > 0:
            print(f"... and {left:,} more row{'s' * (left > 1)}: -o wide lists all")


def is_shown(record: Any, output: Output, names: Iterable[str]) -> bool:
    """Print a record as JSON or YAML, or its names; return False for output as a table."""
    if output in (Output.JSON, Output.YAML):
        show_document(msgspec.to_builtins(record), output)
    elif output is Output.NAME:
        listed = list(names)
        if listed:
            print(*listed, sep="\n")
    else:
        return False
    return True


def be_quick() -> None:
    """Exempt loaded modules from garbage collection, which live as long as the process, and make
    it rare: little of what is read becomes garbage.
    """
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
