"""`Runners`: the runner for an attempt, without the plugins that sleep when it begins.

A plugin for hardware that nobody has yet would otherwise be asked about every pod. Reserve and what
follows go with the attempt, so that a plugin is told the end of what it was told the beginning of.
"""

from __future__ import annotations

import msgspec

from scheduler.framework.measure import Instruments
from scheduler.framework.plugin import POINTS
from scheduler.framework.profile import Profile
from scheduler.framework.runner import Runner


class Runners:
    """The runners of one profile, one for each set of plugins that were asleep at the same time."""

    def __init__(self, profile: Profile, instruments: Instruments | None = None) -> None:
        self._profile = profile
        self._instruments = instruments
        self._all = Runner(profile, instruments)
        self._sleepers = tuple(one for one in profile.plugins.values() if one.serves("sleeps"))
        self._without: dict[tuple[str, ...], Runner] = {(): self._all}

    def awake(self) -> Runner:
        """Return the runner of the plugins that are awake."""
        if not self._sleepers:
            return self._all
        asleep = tuple([one.name for one in self._sleepers if one.sleeps()])
        runner = self._without.get(asleep)
        if runner is None:
            runner = Runner(_without(self._profile, asleep), self._instruments)
            self._without[asleep] = runner
        return runner


def _without(profile: Profile, names: tuple[str, ...]) -> Profile:
    """Return a profile that calls these plugins nowhere."""
    points = {
        point: tuple(bound for bound in getattr(profile, point) if bound.name not in names)
        for point in POINTS
    }
    return msgspec.structs.replace(profile, **points)
