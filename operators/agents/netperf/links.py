"""Simulated links: delays that a responder adds, read from a file, to verify percentiles.

    links:
    - {origin: n1, destination: n2, delayMicroseconds: 2000, jitterMicroseconds: 500}
    - {origin: "*", destination: n3, delayMicroseconds: 9000}

The first matching entry counts; a link is the same in both directions. A round trip takes the delay
plus a share of the jitter, evenly spread: its median is delay + jitter/2, its p90 delay + 0.9 x
jitter. A changed file holds from the next probe on. For trying out and for tests; never in a real
cluster.
"""

import time
from pathlib import Path
from random import Random
from typing import Annotated

import msgspec
import structlog
import yaml

from scheduler.base.clock import perf_s
from scheduler.base.errors import ConfigError

ANY = "*"
# A sleep ends up to this much late; the remaining time is waited for in a loop.
_UNSURE_S = 200e-6

_Microseconds = Annotated[int, msgspec.Meta(ge=0, le=10_000_000)]
_log = structlog.get_logger("agent.netperf")


class SimulatedLink(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The additional time of round trips between two nodes."""

    delay_microseconds: _Microseconds
    jitter_microseconds: _Microseconds = 0
    origin: str = ANY
    destination: str = ANY

    def fits(self, one: str, other: str) -> bool:
        """Return whether this is the link between two nodes, from either end."""
        ends = (self.origin, self.destination)
        return any(
            all(end in (ANY, name) for end, name in zip(ends, names, strict=True))
            for names in ((one, other), (other, one))
        )


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    links: tuple[SimulatedLink, ...] = ()


class SimulatedLinks:
    """The links of a file; ConfigError when it cannot be used at the start."""

    def __init__(self, path: Path, random: Random) -> None:
        self._path = path
        self._random = random
        self._stamp = 0
        self._links: tuple[SimulatedLink, ...] = ()
        self._read()

    def between(self, one: str, other: str) -> SimulatedLink | None:
        """Return the link between two nodes by the current file, None for an undelayed one."""
        try:
            self._read()
        except ConfigError as error:
            _log.warning("simulated links stay as they were", because=str(error))
        return next((link for link in self._links if link.fits(one, other)), None)

    def wait(self, link: SimulatedLink, since: float) -> None:
        """Return at the time when a link would have carried the bytes that arrived at `since` there
        and back.
        """
        share = self._random.random()
        until = since + (link.delay_microseconds + share * link.jitter_microseconds) / 1e6
        time.sleep(max(until - perf_s() - _UNSURE_S, 0.0))
        while perf_s() < until:
            pass

    def _read(self) -> None:
        try:
            stamp = self._path.stat().st_mtime_ns
            if stamp == self._stamp:
                return
            self._stamp = stamp
            document = yaml.safe_load(self._path.read_text())
            self._links = msgspec.convert(document, _File).links
        except OSError as error:
            raise ConfigError(str(error.strerror), where=str(self._path)) from error
        except (yaml.YAMLError, msgspec.ValidationError) as error:
            raise ConfigError(str(error), where=str(self._path)) from error
