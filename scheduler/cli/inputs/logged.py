"""A decision log read for its past: the attempts with their reasons, and the cluster at any moment.

Used by `trellis history` and `trellis ui --decision-log`. The log is replayed, so that reasons come
from the engine itself. If this version decides differently from the log, the history ends there,
and a notice states so.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from scheduler.base.errors import InputError
from scheduler.base.release import Release, read_release
from scheduler.config import Loaded, default_config, load
from scheduler.daemon.records.decisions import DecisionHistory
from scheduler.engine.decisionlog import Header, LoggedTurn
from scheduler.engine.engine import Engine
from scheduler.engine.settings import engine_settings
from scheduler.explain.attempts import AttemptRecord, LeaderChange, assumed
from scheduler.intree import registry
from scheduler.simulate.replay import replay
from scheduler.snapshot.logged import LoggedCluster
from scheduler.snapshot.snapshot import Snapshot

MOST_BYTES = 512 << 20
MOST_ATTEMPTS = 1_000_000


def configuration(header: Header) -> Loaded:
    """Return the configuration that a log was made with."""
    known = registry()
    if not header.config:
        loaded = default_config(known)
    else:
        loaded = load(header.config, file="(logged)", registry=known)
    return replace(loaded, release=_release(header))


def _release(header: Header) -> Release | None:
    return read_release(header.kubernetes, where="(logged)") if header.kubernetes else None


def engine_of(header: Header) -> Engine:
    """Return an engine made like that of a log."""
    loaded = configuration(header)
    return Engine(loaded.profiles, registry(), settings=engine_settings(loaded, seed=header.seed))


class LogView:
    """The state that a log contains; `notices` are printed beside it."""

    def __init__(self, file: str) -> None:
        self._history: DecisionHistory | None = None
        self._cluster = LoggedCluster()
        self._served: frozenset[str] = frozenset()
        self.header = Header("")
        self.notices: tuple[str, ...] = ()
        try:
            if Path(file).stat().st_size > MOST_BYTES:
                text = f"larger than {MOST_BYTES >> 20} MiB: cut off its end"
                raise InputError(text, where=file)
            with Path(file).open("rb") as lines:
                result = replay(lines, self._engine, where=file, each=self._take)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", where=file) from error
        if result.difference is not None:
            line = result.difference.line
            self.notices = (
                f"from line {line} on this version decides otherwise: the rest is left out",
            )
        elif not result.is_complete:
            self.notices = ("the last line is cut off and was left out",)

    def attempts(self) -> Sequence[AttemptRecord]:
        """Return all attempts."""
        return () if self._history is None else self._history.attempts

    def leading(self) -> Iterable[LeaderChange]:
        """Return when the daemon of the log began and ceased to lead."""
        return () if self._history is None else self._history.leading

    def snapshot(self) -> Snapshot:
        """Return the cluster at the end."""
        return self._ours(self._cluster.snapshot())

    def snapshot_at(self, at: float, _now: Snapshot | None = None) -> Snapshot:
        """Return the cluster at `at`, just after the decision of that moment."""
        return assumed(self._ours(self._cluster.snapshot(at)), self.attempts(), at)

    def _ours(self, snapshot: Snapshot) -> Snapshot:
        """Return `snapshot` without pending pods of other schedulers, as the daemon shows it."""
        ours = tuple(pod for pod in snapshot.unbound if pod.spec.scheduler_name in self._served)
        return replace(snapshot, unbound=ours, release=_release(self.header))

    def _engine(self, header: Header) -> Engine:
        self.header = header
        engine = engine_of(header)
        self._served = frozenset(engine.profiles)
        self._history = DecisionHistory(engine, most=MOST_ATTEMPTS)
        # Messages that the daemon logged at that time are not repeated here.
        engine.observation.on_end = lambda _queued, _result, _text: None
        engine.observation.on_fault = lambda _plugin, _point, _error: None
        return engine

    def _take(self, step: LoggedTurn) -> None:
        self._cluster.take(step)
