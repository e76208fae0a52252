"""`Narrow`: a pre-filter's state together with the only rows worth looking at."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.base.arrays import BoolColumn


class Narrow(msgspec.Struct, frozen=True):
    """Return this from `pre_filter` to keep all other rows from being filtered at all.

    Rows of several plugins are intersected (kube-scheduler's PreFilterResult). `state` arrives at the
    later points as if it had been returned alone.
    """

    rows: BoolColumn
    state: Any = None
