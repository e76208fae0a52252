"""One helper process for what computes long, killable at its time limit.

Takes jobs as JSON and gives answers as JSON; holds no state of the cluster.
"""

from scheduler.workers.pool import JobOutcome, WorkerPool

__all__ = ["JobOutcome", "WorkerPool"]
