"""Parts of moments and durations: `getFullYear()`, `getHours("+02:00")`.

Zones are `UTC` and offsets: names of regions would require the host's time zone files, which this
package does not read; upstream accepts them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from scheduler.cel.evaluation.timetext import moment
from scheduler.cel.evaluation.values import Duration, EvaluationFault, Timestamp
from scheduler.cel.library import Library

_OFFSET = re.compile(r"([+-]?)([0-9]{1,2}):([0-9]{2})", re.ASCII)

_PARTS: dict[str, tuple[str, Callable[[datetime], int]]] = {
    "getFullYear": ("year", lambda date: date.year),
    "getMonth": ("month", lambda date: date.month - 1),
    "getDayOfYear": ("day_of_year", lambda date: date.timetuple().tm_yday - 1),
    "getDayOfMonth": ("day_of_month", lambda date: date.day - 1),
    "getDate": ("day_of_month_1_based", lambda date: date.day),
    "getDayOfWeek": ("day_of_week", lambda date: date.isoweekday() % 7),
    "getHours": ("hours", lambda date: date.hour),
    "getMinutes": ("minutes", lambda date: date.minute),
    "getSeconds": ("seconds", lambda date: date.second),
}
_UNITS = {"getHours": 3600 * 10**9, "getMinutes": 60 * 10**9, "getSeconds": 10**9}


def _minutes_east(zone: str) -> int | None:
    if zone in ("", "UTC"):
        return 0
    match = _OFFSET.fullmatch(zone)
    if match is None:
        return None
    minutes = int(match[2]) * 60 + int(match[3])
    return -minutes if match[1] == "-" else minutes


def _of_timestamp(part: Callable[[datetime], int]) -> Callable[..., Any]:
    def call(value: Timestamp, zone: str = "") -> Any:
        east = _minutes_east(zone)
        if east is None:
            return EvaluationFault(f"unknown time zone {zone}")
        return part(moment(value.nanos, east))

    return call


def _of_duration(unit: int) -> Callable[[Duration], int]:
    def call(value: Duration) -> int:
        whole = abs(value.nanos) // unit
        return -whole if value.nanos < 0 else whole

    return call


def _milliseconds(value: Timestamp, zone: str = "") -> Any:
    if _minutes_east(zone) is None:
        return EvaluationFault(f"unknown time zone {zone}")
    return value.nanos % 10**9 // 10**6


def _functions() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for name, (word, part) in _PARTS.items():
        for zone, argument in (("", ""), ("_with_tz", "string")):
            line = f"{name} timestamp_to_{word}{zone} timestamp.({argument}) -> int"
            found[line] = _of_timestamp(part)
        if name in _UNITS:
            found[f"{name} duration_to_{word} duration.() -> int"] = _of_duration(_UNITS[name])
    name = "getMilliseconds"
    found[f"{name} timestamp_to_milliseconds timestamp.() -> int"] = _milliseconds
    found[f"{name} timestamp_to_milliseconds_with_tz timestamp.(string) -> int"] = _milliseconds
    found[f"{name} duration_to_milliseconds duration.() -> int"] = _of_duration(10**6)
    return found


TIMES = Library(_functions())
