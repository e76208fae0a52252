"""A snapshot and a question about it as bytes, for another process: JSON, one line per few hundred
objects.

`packed` yields the lines, so that the sender can do other work in between; `unpacked` reads them
back into equal structs.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import Any

import msgspec

from scheduler.base.errors import InputError
from scheduler.explain.questions import Question
from scheduler.objects.kinds import BY_KIND
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.simulate.stage import AnswerOptions
from scheduler.snapshot.snapshot import Snapshot

AT_A_TIME = 250


class _Head(msgspec.Struct, frozen=True):
    question: Question
    options: AnswerOptions
    config: str
    given: tuple[str, ...]
    taken_at: float
    notices: tuple[str, ...]


class _Part(msgspec.Struct, frozen=True):
    place: str
    objects: msgspec.Raw


def _list_decoder(struct: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(list[struct])


_NODES, _BOUND, _UNBOUND, _ENDED = "nodes", "bound", "unbound", "ended"
_head = msgspec.json.Decoder(_Head)
_part = msgspec.json.Decoder(_Part)
_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    _NODES: msgspec.json.Decoder(list[Node]),
    _BOUND: msgspec.json.Decoder(list[Pod]),
    _UNBOUND: msgspec.json.Decoder(list[Pod]),
    _ENDED: msgspec.json.Decoder(list[Pod]),
    **{name: _list_decoder(kind.struct) for name, kind in BY_KIND.items()},
}


def packed(
    question: Question, snapshot: Snapshot, options: AnswerOptions, config: str = ""
) -> Iterator[bytes]:
    """Yield the lines of a question about `snapshot`.

    `config` is a configuration's text, empty for the default.
    """
    encode = msgspec.json.encode
    head = _Head(
        question, options, config, tuple(snapshot.given), snapshot.taken_at, tuple(snapshot.notices)
    )
    yield encode(head) + b"\n"
    for place, objects in _places(snapshot):
        left = iter(objects)
        while some := list(islice(left, AT_A_TIME)):
            yield encode(_Part(place, msgspec.Raw(encode(some)))) + b"\n"


def unpacked(lines: bytes) -> tuple[Question, Snapshot, AnswerOptions, str]:
    """Return what `packed` wrote; InputError for any other text."""
    first, *rest = lines.rstrip(b"\n").split(b"\n")
    found: dict[str, list[Any]] = {_NODES: [], _BOUND: [], _UNBOUND: [], _ENDED: []}
    objects: list[tuple[str, Any]] = []
    try:
        head = _head.decode(first)
        for line in rest:
            part = _part.decode(line)
            some = _DECODERS[part.place].decode(part.objects)
            if part.place in found:
                found[part.place] += some
            else:
                objects += [(part.place, one) for one in some]
    except (msgspec.DecodeError, KeyError) as error:
        raise InputError(f"not a question about a cluster: {error}") from error
    snapshot = Snapshot(
        nodes=tuple(found[_NODES]),
        objects=tuple(objects),
        bound=tuple(found[_BOUND]),
        unbound=tuple(found[_UNBOUND]),
        ended=tuple(found[_ENDED]),
        given=frozenset(head.given),
        taken_at=head.taken_at,
        notices=head.notices,
    )
    return head.question, snapshot, head.options, head.config


def _places(snapshot: Snapshot) -> Iterator[tuple[str, Sequence[Any]]]:
    yield _NODES, snapshot.nodes
    yield _BOUND, snapshot.bound
    yield _UNBOUND, snapshot.unbound
    yield _ENDED, snapshot.ended
    for kind, pairs in groupby(snapshot.objects, key=lambda pair: pair[0]):
        yield kind, [obj for _, obj in pairs]
