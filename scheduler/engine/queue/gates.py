"""What keeps a pod out of the queue: the pre-enqueue plugins of its profile, in order."""

from collections.abc import Mapping

import msgspec

from scheduler.engine.observation import Observation
from scheduler.engine.queue.pod import QueuedPod
from scheduler.framework.profile import Profile
from scheduler.framework.running.answertypes import status_of
from scheduler.framework.status import Code, Status
from scheduler.objects.pod import Pod


class Gates:
    """Runs the PreEnqueue plugins of a pod; results of group members are stored in `answers`."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        observation: Observation,
        answers: list[tuple[QueuedPod, Status | None]],
    ) -> None:
        self._profiles = profiles
        self._observation = observation
        self._answers = answers

    def closed(self, queued: QueuedPod) -> Status | None:
        """Return the status of the first plugin that gates a pod, or None."""
        started_s = self._observation.now_s()
        status = self._first_closed(queued.pod)
        self._observation.let_in(queued.profile, started_s)
        if queued.is_member:
            self._answers.append((queued, status))
        return status

    def _first_closed(self, pod: Pod) -> Status | None:
        """Run the gates in order; return the first that blocks.

        A plugin that raises gates the pod as well: whether it may be queued is unknown.
        """
        for bound in self._profiles[pod.spec.scheduler_name].pre_enqueue:
            try:
                status = status_of(bound.call(pod), "pre_enqueue")
            except Exception as error:  # noqa: BLE001 - no plugin may end the engine
                self._observation.fault(bound.name, "PreEnqueue", error)
                status = Status(Code.ERROR, (str(error),))
            if status is not None and not status.is_success:
                return msgspec.structs.replace(status, plugin=bound.name)
        return None
