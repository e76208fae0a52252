"""Why a pod is pending: its requirements, the smallest unsatisfiable subset, and remedies."""

from scheduler.explain.why.records import (
    AskedField,
    QueuePlace,
    RunnerUp,
    SuggestedChange,
    Suggestion,
    Why,
)

__all__ = ["AskedField", "QueuePlace", "RunnerUp", "SuggestedChange", "Suggestion", "Why"]
