"""Read a trace of arrivals: CSV, a row per pod or per count of equal pods, in order of arrival.

    arrival,duration,namespace,shape,count,gang,cpu,memory,nvidia.com/gpu
    0,3600,research,small,4,4,8,32Gi,1

`arrival` and `duration` are seconds; an empty duration never ends. `gang` is the number of
the row's pods that start together or not at all. Every further column is a resource. Rows are read
one at a time, so that a trace of any length takes the memory of one row.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from scheduler.base.errors import InputError, ObjectError
from scheduler.objects.quantity import resource_amount
from scheduler.simulate.traces.arrival import MOST_PODS, Arrival

FIXED = ("arrival", "duration", "namespace", "shape", "count", "gang")
MOST_COUNT = 100_000
MOST_COLUMNS = 64
LONGEST_LINE = 16_384
_LONGEST_NAME = 63


def read_trace(lines: Iterable[str], file: str) -> Iterator[Arrival]:
    """Yield the rows; InputError names the file and the line of the first invalid one."""
    reader = csv.reader(_bounded(lines, file))
    header = [name.strip() for name in next(reader, [])]
    _check_header(header, file)
    last, pods = 0.0, 0
    for cells in reader:
        if not any(cell.strip() for cell in cells):
            continue
        where = f"{file}:{reader.line_num}"
        if len(cells) != len(header):
            raise InputError(f"has {len(cells)} cells, the header has {len(header)}", where=where)
        row = _row(dict(zip(header, cells, strict=True)), header, where)
        if row.at_s < last:
            text = f"arrival {row.at_s:g} comes after {last:g}: sort the rows by arrival"
            raise InputError(text, where=where)
        last, pods = row.at_s, pods + row.count
        if pods > MOST_PODS:
            raise InputError(f"more than {MOST_PODS} pods: split the trace", where=where)
        yield row


def _bounded(lines: Iterable[str], file: str) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST_LINE:
            text = f"is longer than {LONGEST_LINE} characters"
            raise InputError(text, where=f"{file}:{number}")
        yield line


def _check_header(header: Sequence[str], file: str) -> None:
    where = f"{file}:1"
    if "arrival" not in header:
        text = f"has no column arrival: the first line names {', '.join(FIXED)} and resources"
        raise InputError(text, where=where)
    if len(header) > MOST_COLUMNS:
        raise InputError(
            f"has {len(header)} columns, at most {MOST_COLUMNS} can be read", where=where
        )
    for name in header:
        if header.count(name) > 1:
            raise InputError(f'names column "{name}" twice', where=where)
        if (
            name not in FIXED
            and name not in ("cpu", "memory", "ephemeral-storage")
            and "/" not in name
        ):
            text = f'column "{name[:_LONGEST_NAME]}" is no resource (like cpu or nvidia.com/gpu)'
            raise InputError(text, where=where)


def _row(cells: Mapping[str, str], header: Sequence[str], where: str) -> Arrival:
    duration = cells.get("duration", "").strip()
    requests = tuple(
        (name, _amount(name, text, where))
        for name in header
        if name not in FIXED and (text := cells[name].strip())
    )
    shape = _name(cells, "shape", "", where)
    count = _count(cells, "count", 1, MOST_COUNT, where)
    return Arrival(
        where=where,
        at_s=_seconds("arrival", cells["arrival"].strip(), where),
        duration_s=_seconds("duration", duration, where) if duration else None,
        namespace=_name(cells, "namespace", "default", where),
        shape=shape or " ".join(f"{name}={text}" for name, text in requests) or "no requests",
        count=count,
        gang=_count(cells, "gang", 0, count, where),
        requests=requests,
    )


def _count(cells: Mapping[str, str], column: str, least: int, most: int, where: str) -> int:
    """Return a number of pods; `least` for an empty cell."""
    text = cells.get(column, "").strip() or str(least)
    if not text.isdecimal() or not least <= int(text[:9]) <= most:
        raise InputError(f'{column} "{text[:20]}": must be {least} to {most}', where=where)
    return int(text)


def _amount(name: str, text: str, where: str) -> str:
    try:
        amount = resource_amount(name, text)
    except ObjectError as error:
        raise InputError(f"{name}: {error.message}", where=where) from error
    if amount < 0:
        raise InputError(f'{name} "{text[:20]}": must not be negative', where=where)
    return text


def _seconds(name: str, text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1e10:
        shown = f'{name} "{text[:20]}": must be seconds, 0 or more, without a unit'
        raise InputError(shown, where=where)
    return value


def _name(cells: Mapping[str, str], column: str, default: str, where: str) -> str:
    text = cells.get(column, "").strip() or default
    if len(text) > _LONGEST_NAME:
        raise InputError(f"{column} is longer than {_LONGEST_NAME} characters", where=where)
    return text
