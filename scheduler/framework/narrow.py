"""`Narrow`: a pre-filter's state together with the only rows worth looking at."""

from typing import Any

import msgspec

from scheduler.base.arrays import BoolColumn
from scheduler.framework.status import Status, unresolvable


class Narrow(msgspec.Struct, frozen=True):
    """Return this from `pre_filter` to keep all other rows from being filtered at all.

    Rows of several plugins are intersected (kube-scheduler's PreFilterResult). `state` arrives at the
    later points as if it had been returned alone. `is_empty` says that the plugin names no node at
    all, not even one that is not there: the pod is rejected at once.
    """

    rows: BoolColumn
    state: Any = None
    is_empty: bool = False


def none_left(plugins: list[str]) -> Status:
    """Return the status of a pod for which these plugins together leave no node to look at."""
    if len(plugins) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {plugins[0]}")
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}] simultaneously")
