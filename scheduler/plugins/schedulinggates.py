"""SchedulingGates: a pod with scheduling gates does not enter the queue."""

from scheduler.framework import Change, NoArgs, Plugin, Pod, Status, unresolvable


class SchedulingGates(Plugin[NoArgs]):
    """Gate a pod until spec.schedulingGates is empty."""

    reads = ("self.gates",)

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Return why the pod may not enter the queue, or None."""
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        return unresolvable(
            f"waiting for scheduling gates: [{' '.join(gate.name for gate in gates)}]"
        )

    def hint(self, _change: Change, pod: Pod) -> bool:
        """Return whether the last gate was removed."""
        return not pod.spec.scheduling_gates
