"""Why a pod is not in the queue: what the plugin says that holds it there."""

from scheduler.engine.engine import Engine
from scheduler.engine.queue.pod import QueuedPod
from scheduler.framework.status import Status


def gate_text(engine: Engine, queued: QueuedPod) -> str:
    """Return the words of the plugin that holds a gated pod."""
    for bound in engine.profiles[queued.profile].pre_enqueue:
        if bound.name == queued.gated_by:
            try:
                status: Status | None = bound.call(queued.pod)
            except Exception as error:  # noqa: BLE001 - the engine holds the pod for this very fault
                return str(error)
            return status.message if status is not None else ""
    return ""
