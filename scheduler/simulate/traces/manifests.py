"""Reads a trace of Kubernetes objects: a file of manifests, or one JSON object per line.

    metadata:
      annotations:
        trellis.dev/arrival: "12.5"
        trellis.dev/duration: "3600"
        trellis.dev/shape: small

Times are seconds. A pod without a duration never ends, unless `trellis.dev/deleted-after` has the
seconds from its arrival after which it is deleted, bound or not. `trellis.dev/waited` is the time
from the arrival to the binding in the recording, `trellis.dev/termination` that from the deletion
of a running pod to its end, which is part of its duration. What ends at one time does so by
`trellis.dev/end-order`, a number. An object without an arrival is there from the start. A pod with
`spec.nodeName` runs there from its arrival. Lines are read one at a time and are sorted by arrival;
the objects of any other file are sorted here.

A `RecordedAnswer`, which only traces have, is named like the scheduler's request: it waited until
the request was made, and lasted until its answer.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from scheduler.base.errors import InputError, ObjectError
from scheduler.engine.decisionlog import AWAITED
from scheduler.objects.kinds import POD
from scheduler.simulate.traces.arrival import ANSWER, LONGEST_LINE, MOST_PODS, Arrival
from scheduler.snapshot.decoding import decoded, kind_of, plain_of
from scheduler.snapshot.documents import Item, SourceFile, items_of
from scheduler.state.resources import pod_requests

ARRIVAL = "trellis.dev/arrival"
DURATION = "trellis.dev/duration"
WAITED = "trellis.dev/waited"
TERMINATION = "trellis.dev/termination"
END_ORDER = "trellis.dev/end-order"
DELETED_AFTER = "trellis.dev/deleted-after"
SHAPE = "trellis.dev/shape"
_LONGEST_SHAPE = 63


def read_lines(lines: Iterable[bytes], file: str) -> Iterator[Arrival]:
    """Yield the objects of a file with one JSON object per line; InputError names the line."""
    last, pods = 0.0, 0
    for number, line in enumerate(lines, 1):
        where = f"{file}:{number}"
        if len(line) > LONGEST_LINE:
            raise InputError(f"is longer than {LONGEST_LINE} bytes", where=where)
        if not line.strip():
            continue
        for item in items_of(SourceFile(where, line)):
            arrival = _arrival(item, where)
            if arrival is None:
                continue
            if arrival.at_s < last:
                text = f"{ARRIVAL} {arrival.at_s:g} comes after {last:g}: sort the lines by arrival"
                raise InputError(text, where=where)
            last, pods = arrival.at_s, pods + (arrival.pod is not None)
            if pods > MOST_PODS:
                raise InputError(f"more than {MOST_PODS} pods: split the trace", where=where)
            yield arrival


def read_manifests(source: SourceFile) -> Iterator[Arrival]:
    """Yield the objects of a YAML or JSON file by arrival; InputError names the file and item."""
    found = (_arrival(item, item.where) for item in items_of(source))
    yield from sorted((one for one in found if one is not None), key=lambda one: one.at_s)


def _arrival(item: Item, where: str) -> Arrival | None:
    """Return the arrival of an object; None for kinds that Trellis does not read."""
    try:
        if item.head.kind == ANSWER:
            return _answer(item, where)
        kind = kind_of(item)
        if kind is None:
            return None
        plain = plain_of(item)
        notes = _annotations(plain)
        at = _seconds(notes, ARRIVAL, where) or 0.0
        obj = decoded(kind, plain)
        # Amounts are decoded on use: a bad one is reported here, with its line.
        requests = pod_requests(obj) if kind is POD else {}
    except InputError as error:
        raise InputError(error.message, where=where) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise ObjectError(str(error), where=where) from error
    if kind is not POD:
        return Arrival(where=where, at_s=at, kind=kind.kind, obj=obj)
    duration = _seconds(notes, DURATION, where)
    shape = str(notes.get(SHAPE, "")) or _shape(requests)
    if len(shape) > _LONGEST_SHAPE:
        raise InputError(f"{SHAPE} is longer than {_LONGEST_SHAPE} characters", where=where)
    namespace = obj.metadata.namespace
    return Arrival(
        where=where,
        at_s=at,
        duration_s=duration,
        waited_s=_seconds(notes, WAITED, where),
        termination_s=_seconds(notes, TERMINATION, where),
        end_order=int(_seconds(notes, END_ORDER, where) or 0),
        deleted_after_s=_seconds(notes, DELETED_AFTER, where),
        namespace=namespace,
        shape=shape,
        pod=obj,
    )


def _answer(item: Item, where: str) -> Arrival:
    plain = plain_of(item)
    notes, meta = _annotations(plain), plain.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    if name not in AWAITED:
        text = f"{ANSWER}: metadata.name must be one of {', '.join(AWAITED)}"
        raise InputError(text, where=where)
    return Arrival(
        where=where,
        kind=ANSWER,
        obj=name,
        at_s=_seconds(notes, ARRIVAL, where) or 0.0,
        waited_s=_seconds(notes, WAITED, where),
        duration_s=_seconds(notes, DURATION, where),
        end_order=int(_seconds(notes, END_ORDER, where) or 0),
    )


def _annotations(plain: Any) -> dict[str, Any]:
    meta = plain.get("metadata")
    notes = meta.get("annotations") if isinstance(meta, dict) else None
    return notes if isinstance(notes, dict) else {}


def _seconds(notes: dict[str, Any], name: str, where: str) -> float | None:
    if name not in notes:
        return None
    text = str(notes[name])
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1e10:
        shown = f'{name} "{text[:20]}": must be seconds, 0 or more, without a unit'
        raise InputError(shown, where=where)
    return value


def _shape(requests: Mapping[str, int]) -> str:
    text = " ".join(
        f"{name.rpartition('/')[2]}={amount}" for name, amount in sorted(requests.items())
    )
    return text[:_LONGEST_SHAPE] or "no requests"
