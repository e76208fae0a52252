"""What a page asks of a snapshot: what would happen now, why a pod fares as it does, what a change moves.

Called by `trellis ui` in a thread and, for the daemon's page, in a process of its own. Works on the
snapshot that it is given and writes nothing; what may be asked of whom is decided by who makes the snapshot.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from scheduler.whatif.diff import diff
from scheduler.whatif.documents import Source, items_of
from scheduler.whatif.explain import explain
from scheduler.whatif.records import Simulation
from scheduler.whatif.setups import Setups
from scheduler.whatif.simulate import simulate
from scheduler.whatif.snapshot import Snapshot, read_snapshot
from scheduler.whatif.stage import Options, Setup
from scheduler.whatif.views import merged


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """One question: `pod` is for "explain", `manifests` and `config` (texts) are what to try."""

    what: Literal["plan", "explain", "change"]
    pod: str = ""
    manifests: str = ""
    config: str = ""


class Responder:
    """Answers questions under the configurations of `setups`; keeps the plan of the last snapshot."""

    def __init__(self, setups: Setups) -> None:
        self._setups = setups
        self._planned: tuple[Snapshot, Simulation] | None = None

    def answer(self, question: Question, world: Snapshot, options: Options) -> object:
        """Return a record for JSON; TrellisError says what is wrong with the question."""
        if question.what == "plan":
            return self._plan(world, options)
        if question.what == "explain":
            return explain(world, self._setups.default, question.pod, options)
        given = read_snapshot(
            (), items_of(Source("the manifest", question.manifests.encode(errors="replace")))
        )
        other = merged(world, given) if question.manifests.strip() else world
        after = simulate(other, self._setup_of(question.config), options)
        return {"diff": diff(self._plan(world, options), after), "after": after}

    def _setup_of(self, config: str) -> Setup:
        if not config.strip():
            return self._setups.default
        return self._setups.of(config, file="the configuration")

    def _plan(self, world: Snapshot, options: Options) -> Simulation:
        if self._planned is None or self._planned[0] is not world:
            self._planned = (world, simulate(world, self._setups.default, options))
        return self._planned[1]
