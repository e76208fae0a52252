"""What `simulate` and `explain` share: the files they read and the configuration they run.

Notices go to stderr, so that stdout holds the answer alone.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from scheduler.base.errors import InputError
from scheduler.cli.files import manifest_files, read_bytes, read_text, shown
from scheduler.cli.flags import Output
from scheduler.cli.installed import registry
from scheduler.cli.printing import show_document, table
from scheduler.config import load
from scheduler.engine.attempt.choose import Ties
from scheduler.framework.registry import Registry
from scheduler.whatif.batch import moment
from scheduler.whatif.documents import Item, Source, items_of
from scheduler.whatif.report import Table
from scheduler.whatif.setups import Setups
from scheduler.whatif.snapshot import Snapshot, read_snapshot
from scheduler.whatif.stage import Options, Setup

EXIT_DOES_NOT_FIT = 3
EXIT_UNPROVEN = 4


def read_files(snapshots: Sequence[str] | None, pods: Sequence[str] | None) -> Snapshot:
    """Read a snapshot and the pods named apart from it."""
    names = [*(snapshots or ()), *(pods or ())]
    if names.count("-") > 1:
        raise InputError("standard input can be read once only", where="-")
    return read_snapshot(_items(snapshots or ()), _items(pods or ()))


def _items(names: Iterable[str]) -> Iterator[Item]:
    for name in manifest_files(names):
        yield from items_of(Source(shown(name), read_bytes(name)))


def setups(config: str) -> Setups:
    """Return the configurations at hand; the default is that of `--config`."""
    known = registry()
    return Setups(known, read_setup(config, known) if config else None)


def read_setup(config: str, known: Registry) -> Setup:
    """Read a configuration file."""
    loaded = load(read_text(config), file=shown(config), registry=known)
    tell(f"notice: {notice}" for notice in loaded.notices)
    return Setup(loaded, known)


def options(now: str, ties: Ties, seed: int | None, *, details: bool) -> Options:
    """Return what flags say of how to answer; a seed decides ties at random, always alike."""
    chosen = ties if seed is None else Ties.SEED
    at = moment(now) if now else None
    return Options(now=at, ties=chosen, seed=seed or 0, details=details)


def tell(lines: Iterable[str]) -> None:
    """Print lines on stderr."""
    for line in lines:
        print(line, file=sys.stderr)


def show_tables(tables: Iterable[Table]) -> None:
    """Print tables with their headings, an empty line between them."""
    for number, one in enumerate(tables):
        if number:
            print()
        if one.heading:
            print(one.heading)
        print(table(one.titles, one.rows))


def show_record(record: Any, output: Output) -> None:
    """Print a record as JSON or YAML."""
    show_document(msgspec.to_builtins(record), output)


def be_quick() -> None:
    """Keep the collector away from what lives as long as the process: a verb is over soon."""
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
