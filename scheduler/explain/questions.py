"""What a page asks of a snapshot, as plain records: what would happen now, why a pod fares as it does, what a change moves.

`responder` answers them. The daemon only asks: what plans and simulates is loaded by the process that
answers, which spares the daemon a tenth of its start.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from scheduler.base.errors import InputError
from scheduler.snapshot.documents import SourceFile, items_of
from scheduler.snapshot.snapshot import Snapshot, read_snapshot


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """One question: `pod` is for "explain", `manifests` and `config` (texts) are what to try.

    `shapes` are manifests by name, for "capacity".
    """

    what: Literal["plan", "explain", "change", "capacity"]
    pod: str = ""
    manifests: str = ""
    config: str = ""
    shapes: dict[str, str] = {}


class ShapeRoom(msgspec.Struct, frozen=True):
    """How many more of each shape fit, and why some could not be counted."""

    counts: dict[str, int]
    problems: dict[str, str]


def manifest(text: str, name: str) -> Snapshot:
    """Return what a text of manifests gives apart from a cluster; InputError says what is wrong where."""
    source = SourceFile(name, text.encode(errors="replace"))
    return read_snapshot((), items_of(source), is_alone=True)


def check_shapes(shapes: Iterable[str], where: str) -> None:
    """Refuse manifests of shapes that cannot be read or hold no pod to place; InputError names the first."""
    for index, text in enumerate(shapes):
        place = f"{where}: capacity.shapes[{index}].manifest"
        if not manifest(text, place).unbound:
            raise InputError("names no pod that is to be placed", where=place)
