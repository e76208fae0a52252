"""Where a pod stands among those that wait, as its profile's sort plugin has it. Pure."""

from scheduler.base.clock import parse_rfc3339
from scheduler.engine.engine import Engine
from scheduler.engine.queue.pod import Where
from scheduler.objects.pod import Pod
from scheduler.whatif.why.records import QueuePlace


def queue_place(engine: Engine, pod: Pod, now: float) -> QueuePlace | None:
    """Return the place of `pod` among all pods that wait, as if all were tried anew; None if it does not.

    Takes the pods out of the queue of `engine`, which cannot be run afterwards.
    """
    queued = engine.queues.get(pod.metadata.uid)
    if queued is None or queued.where is not Where.ACTIVE:
        return None
    waiting = engine.queues.count(Where.ACTIVE)
    place = 1
    while engine.queues.pop(now) is not queued:
        place += 1
    made = parse_rfc3339(pod.metadata.creation_timestamp)
    waited = None if made is None or made > now else int(now - made)
    return QueuePlace(place, waiting, waited)
