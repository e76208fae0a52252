"""What the runner makes of the plugins' answers in one attempt."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from scheduler.base.arrays import BoolColumn, IntColumn
from scheduler.framework.profile import Bound
from scheduler.framework.status import SUCCESS, Rejected, Status

if TYPE_CHECKING:
    from scheduler.framework.concern import Asked
    from scheduler.framework.memo import Kind


class States(msgspec.Struct, eq=False):
    """What plugins returned from pre-filter and pre-score in one attempt, and who was skipped.

    `asked` are the plugins that have to do with the pod (None before pre-filter: all), `kinds` what was
    kept of its likes by plugin, and `filters` those that filter.
    """

    by_plugin: dict[str, Any] = {}
    scoring: dict[str, Any] = {}
    skipped: set[str] = set()
    skipped_scoring: set[str] = set()
    asked: "Asked | None" = None
    kinds: "Mapping[str, Kind]" = {}
    filters: tuple[Bound, ...] | None = None

    def for_score(self, plugin: str) -> Any:
        """Return the state that `score` of a plugin receives."""
        return self.scoring.get(plugin, self.by_plugin.get(plugin))


class PreFiltered(msgspec.Struct, frozen=True):
    """The outcome of pre-filter: a status, and the rows left if plugins narrowed them.

    `stopped_by` is the plugin whose answer kept the others from being asked.
    """

    status: Status = SUCCESS
    rows: BoolColumn | None = None
    narrowed_by: tuple[str, ...] = ()
    stopped_by: str = ""


class Rejection(msgspec.Struct, frozen=True):
    """What one plugin rejected among the rows that had passed all plugins before it."""

    plugin: str
    rows: BoolColumn
    rejected: Rejected


class Scored(msgspec.Struct, frozen=True):
    """The scores of one plugin as full columns; only feasible rows mean anything."""

    plugin: str
    raw: IntColumn
    normalized: IntColumn
    weight: int
