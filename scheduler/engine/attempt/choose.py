"""Which of the best nodes a pod takes.

kube-scheduler's ties are arbitrary; ours are decided, so that a replay and a simulation agree. The
daemon takes the smallest hash of (pod uid, node name), which keeps equal pods from piling up.
"""

from enum import StrEnum
from random import Random

import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn, Rows
from scheduler.framework.nodes import Nodes
from scheduler.state.table import stable_hash

_MIX = np.uint64(0x9E3779B97F4A7C15)
# Below every total: an extender may give any node a negative score.
_NEVER = np.iinfo(np.int64).min


class Ties(StrEnum):
    """How to choose among equally good nodes."""

    UID = "uid"
    NAME = "name"
    SEED = "seed"


def choose(
    nodes: Nodes, feasible: BoolColumn, total: IntColumn, uid: str, ties: Ties, random: Random
) -> int:
    """Return the row with the highest total among the feasible ones (at least one)."""
    # Finding where the largest is costs half of finding out how large it is.
    row = total.argmax()
    if not feasible[row]:
        total = np.where(feasible, total, _NEVER)
        row = total.argmax()
    best = total == total[row]
    best &= feasible
    return break_tie(nodes, best.nonzero()[0], uid, ties, random)


def break_tie(nodes: Nodes, rows: Rows, uid: str, ties: Ties, random: Random) -> int:
    """Return one of equally good rows (at least one) for the pod `uid`."""
    if len(rows) == 1:
        return int(rows[0])
    if ties is Ties.NAME:
        # `capacity` ties thousands of rows, thousands of times: a rank is looked up, no name compared.
        return int(rows[nodes.name_ranks.take(rows).argmin()])
    if ties is Ties.SEED:
        return int(random.choice(sorted(rows.tolist(), key=nodes.name)))
    mixed = nodes.name_hash.take(rows, mode="clip")  # cheaper than indexing
    mixed ^= np.uint64(stable_hash(uid))
    mixed *= _MIX
    return int(rows[mixed.argmin()])


def sample(feasible: BoolColumn, percentage: int, start: int, among: int) -> tuple[BoolColumn, int]:
    """Keep as many feasible rows as `percentageOfNodesToScore` (1..99) asks for.

    Rows are visited from `start` on, wrapping; `among` is the number of nodes in the running.
    Returns the mask and where the next pod starts. kube-scheduler never goes below 100 nodes.
    """
    wanted = max(100, among * percentage // 100)
    if among < 100 or int(np.count_nonzero(feasible)) <= wanted:
        return feasible, start
    order = np.roll(np.arange(len(feasible)), -start)
    kept = order[feasible[order]][:wanted]
    mask = np.zeros_like(feasible)
    mask[kept] = True
    return mask, int(kept[-1] + 1) % len(feasible)
