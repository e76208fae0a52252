"""A page's questions about a snapshot, as plain records: simulation, explanation, effect of a
change.

`responder` answers them. The daemon only sends them: the planning and simulation modules are loaded
by the answering process, which saves a tenth of the daemon's start time.
"""

from collections.abc import Iterable
from typing import Literal

import msgspec

from scheduler.base.errors import InputError
from scheduler.snapshot.documents import SourceFile, items_of
from scheduler.snapshot.snapshot import Snapshot, read_snapshot


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question of the page: `pod` is for "explain", `shapes` are manifests by name, for
    "capacity".

    The changes to try are `manifests` and `config` (texts), and those of nodes as in `NodeChanges`:
    `added` as COUNT=NODE, `removed` nodes, `racks` to remove, `drained` as LABEL=VALUE.
    """

    what: Literal["plan", "explain", "change", "capacity"]
    pod: str = ""
    manifests: str = ""
    config: str = ""
    shapes: dict[str, str] = {}
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()
    drained: tuple[str, ...] = ()


class ShapeCapacity(msgspec.Struct, frozen=True):
    """How many more of each shape fit, and why some could not be counted."""

    counts: dict[str, int]
    problems: dict[str, str]


def manifest(text: str, name: str) -> Snapshot:
    """Return the objects of a text of manifests, apart from a cluster.

    InputError names the fault and its position.
    """
    source = SourceFile(name, text.encode(errors="replace"))
    return read_snapshot((), items_of(source), is_alone=True)


def check_shapes(shapes: Iterable[str], where: str) -> None:
    """Reject manifests of shapes that are invalid or have no pod to place.

    InputError names the first.
    """
    for index, text in enumerate(shapes):
        place = f"{where}: capacity.shapes[{index}].manifest"
        if not manifest(text, place).unbound:
            raise InputError("names no pod that is to be placed", where=place)
