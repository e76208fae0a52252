"""The free capacity of each row for a member of a group, by the pods' requests."""

from collections.abc import Collection, Mapping

import numpy as np

from scheduler.base.arrays import BoolColumn, IntColumn
from scheduler.engine.attempt.cycle import Attempt
from scheduler.framework.nodes import Nodes
from scheduler.state.resources import PODS

UNLIMITED = np.iinfo(np.int64).max


def slots(attempt: Attempt, nodes: Nodes) -> IntColumn:
    """Return how many pods of this request fit into the free amounts of each row.

    Host ports are not counted: they are a rule of the problem, so that a conflict can name them.
    """
    requests = {**attempt.cycle.shape.requests, PODS: 1}
    found = np.full(nodes.size, UNLIMITED, dtype=np.int64)
    limitless = unbounded(attempt, nodes, requests)
    for resource, amount in requests.items():
        if amount > 0:
            fitting = np.maximum(free(attempt, nodes, resource), 0) // amount
            if resource in limitless:
                fitting = np.where(limitless[resource], UNLIMITED, fitting)
            found = np.minimum(found, fitting)
    return found


def unbounded(
    attempt: Attempt, nodes: Nodes, resources: Collection[str]
) -> Mapping[str, BoolColumn]:
    """Return by resource the rows whose allocatable amount limits no pod, by the filters that
    compare it.
    """
    for bound in attempt.runner.profile.filter:
        if bound.plugin.serves("unbounded"):
            return bound.plugin.unbounded(nodes, resources)
    return {}


def free(attempt: Attempt, nodes: Nodes, resource: str) -> IntColumn:
    """Return each row's free amount of a resource; nominations of other pods never make it
    negative.
    """
    left = nodes.allocatable(resource) - nodes.requested(resource)
    rows = attempt.nominated.rows
    if len(rows):
        nominated = attempt.nominated.on(rows)
        reserved = nominated.sums(nominated.amounts(resource))
        left[rows] = np.minimum(left[rows], np.maximum(left[rows] - reserved, 0))
    return left
