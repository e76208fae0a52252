"""Latencies between nodes from the keys of a ConfigMap, with rejected entries.

Pure. An invalid number is reported and left out; a pair without a number is unknown, never free of
cost.
"""

import re
from collections.abc import Mapping

import msgspec

from operators.cooperative import in_turns

# Both spellings in use; the unit is part of the key.
_KEY = re.compile(
    r"netperf[._]p(?P<percentile>\d{1,2})[._]latency[._](?P<unit>milli|micro)seconds"
    r"\.origin\.(?P<origin>.+?)\.destination\.(?P<destination>.+)"
)
HIGHEST = 1_000_000_000  # as in the schema; 1,000 s in microseconds

Pair = tuple[str, str]


class Reading(msgspec.Struct, frozen=True):
    """Latencies by (origin node, destination node), each `unit_us` microseconds, and rejections.

    `taken` is the time of a pair's last measurement in seconds since the epoch, if the source
    reports it.
    """

    latencies: Mapping[Pair, int]
    refused: tuple[str, ...] = ()
    taken: Mapping[Pair, float] = {}
    unit_us: int = 1


def read_config_map(data: Mapping[str, str], percentile: int = 90) -> Reading:
    """Read measurements from a ConfigMap in either spelling of its keys.

    Costs are the numbers of the map, in milliseconds or microseconds. If it mixes both,
    milliseconds are converted to microseconds. An invalid number is reported and left out.
    """
    found: dict[Pair, tuple[str, int]] = {}
    refused = []
    for key, text in sorted(data.items()):
        match = _KEY.fullmatch(key)
        if match is None or int(match["percentile"]) != percentile:
            continue
        value = _number(text)
        if value is None:
            refused.append(f'{key}: "{text[:20]}" is not a whole number up to {HIGHEST}')
            continue
        found[match["origin"], match["destination"]] = (match["unit"], value)
    units = {unit for unit, _ in found.values()}
    factor = {"milli": 1000 if len(units) > 1 else 1, "micro": 1}
    return Reading(
        {pair: value * factor[unit] for pair, (unit, value) in found.items()},
        tuple(refused),
        unit_us=1000 if units == {"milli"} else 1,
    )


async def read_samples(
    values: Mapping[str, tuple[float, float]], times: Mapping[str, tuple[float, float]]
) -> Reading:
    """Read Prometheus results by `origin/destination`: microseconds, and the times of the
    samples.
    """
    latencies: dict[Pair, int] = {}
    taken: dict[Pair, float] = {}
    refused = []
    async for handful in in_turns(values.items()):
        for name, (_, value) in handful:
            origin, _, destination = name.partition("/")
            if 0 <= value <= HIGHEST:
                latencies[origin, destination] = round(value)
            else:
                refused.append(f"{origin} to {destination}: {value:g} is not in 0..{HIGHEST}")
            if name in times:
                taken[origin, destination] = times[name][1]
    return Reading(latencies, tuple(refused), taken)


def _number(text: str) -> int | None:
    """Read a whole number, strictly: Python's int would also accept blanks and underscores."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(HIGHEST))):
        return None
    value = int(text)
    return value if value <= HIGHEST else None
