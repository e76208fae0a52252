"""The results of a profile's plugins in one attempt, combined."""

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler.base.arrays import BoolColumn, IntColumn
from scheduler.framework.profile import Bound
from scheduler.framework.running.concern import ApplicablePlugins
from scheduler.framework.running.memo import PodKind
from scheduler.framework.status import SUCCESS, Status


class States(msgspec.Struct, eq=False):
    """The states that plugins returned from pre-filter and pre-score in one attempt.

    `applicable` are the plugins that apply to the pod (None before pre-filter: all). `kinds` has
    the cached answers for pods with the same key, by plugin. `filters` are the plugins whose
    `filter` runs.
    """

    by_plugin: dict[str, Any] = {}
    scoring: dict[str, Any] = {}
    skipped: set[str] = set()
    skipped_scoring: set[str] = set()
    applicable: ApplicablePlugins | None = None
    kinds: Mapping[str, PodKind] = {}
    filters: tuple[Bound, ...] | None = None

    def for_score(self, plugin: str) -> Any:
        """Return the state that `score` of a plugin receives."""
        return self.scoring.get(plugin, self.by_plugin.get(plugin))


class PreFiltered(msgspec.Struct, frozen=True):
    """The outcome of pre-filter: a status, and the remaining rows if plugins narrowed them.

    `stopped_by` is the plugin whose answer ended pre-filter before the plugins after it ran.
    """

    status: Status = SUCCESS
    rows: BoolColumn | None = None
    narrowed_by: tuple[str, ...] = ()
    stopped_by: str = ""


class Scored(msgspec.Struct, frozen=True):
    """The scores of one plugin as full columns; values of infeasible rows are undefined."""

    plugin: str
    raw: IntColumn
    normalized: IntColumn
    weight: int
