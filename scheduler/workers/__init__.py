"""One helper process for long computations, killed at a job's time limit.

Takes jobs as JSON and returns answers as JSON; holds no cluster state.
"""

from scheduler.workers.pool import JobOutcome, WorkerPool

__all__ = ["JobOutcome", "WorkerPool"]
