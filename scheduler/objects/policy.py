"""Disruption budgets: what preemption tries not to violate."""

from scheduler.objects.meta import Int32, LabelSelector, Object, ObjectMeta


class PodDisruptionBudgetSpec(Object, frozen=True):
    """Which pods a budget covers."""

    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Object, frozen=True):
    """How many of them may go now, and which are on their way already."""

    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, str] = {}


class PodDisruptionBudget(Object, frozen=True):
    """A disruption budget."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
