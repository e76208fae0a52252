"""Why a pod is pending: its requirements, the smallest unsatisfiable subset, and remedies."""

from scheduler.explain.why.records import (
    QueuePlace,
    RunnerUp,
    SuggestedChange,
    Suggestion,
    UnmetRequirement,
    Why,
)

__all__ = ["QueuePlace", "RunnerUp", "SuggestedChange", "Suggestion", "UnmetRequirement", "Why"]
