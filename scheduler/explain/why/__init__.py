"""Why a pod waits: what it asks, the smallest part of that which nobody can satisfy, and what would help."""

from scheduler.explain.why.records import (
    AskedField,
    QueuePlace,
    RunnerUp,
    SuggestedChange,
    Suggestion,
    Why,
)

__all__ = ["AskedField", "QueuePlace", "RunnerUp", "SuggestedChange", "Suggestion", "Why"]
