"""Disruption budgets, which preemption violates only as a last resort."""

from scheduler.objects.meta import Int32, LabelSelector, Object, ObjectMeta


class PodDisruptionBudgetSpec(Object, frozen=True):
    """Which pods a budget covers."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Object, frozen=True):
    """How many pods may be disrupted now, and which disruptions are in progress."""

    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, str] = {}


class PodDisruptionBudget(Object, frozen=True):
    """A disruption budget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
