"""Why a pod waits: what it asks, the smallest part of that which nobody can satisfy, and what would help."""

from scheduler.whatif.why.records import Asked, Change, QueuePlace, RunnerUp, Suggestion, Why

__all__ = ["Asked", "Change", "QueuePlace", "RunnerUp", "Suggestion", "Why"]
