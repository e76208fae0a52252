"""`Arrival`: the objects that a trace adds at one time, read from any file format.

`RecordedAnswers` holds when the requests of a recorded run were answered.
"""

from heapq import heappop, heappush
from typing import Any

import msgspec

from scheduler.objects.pod import Pod

MOST_PODS = 2_000_000
LONGEST_LINE = 1 << 20
# The time that a daemon may take longer than a play, which decides at once. What a play does up to
# this long before its recorded time ends at its recorded end.
LATENCY_S = 5.0
# The kind of a line that has the times of the answer to a request instead of an object.
ANSWER = "RecordedAnswer"


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """`count` equal pods, one `pod` of a manifest, or another object (`kind`, `obj`).

    `where` is the file and line or item, `at_s` is in seconds after the start; `duration_s` None
    never ends. `waited_s` is the recorded time from the arrival to the binding, None if unknown;
    `termination_s` is the last part of `duration_s`, in which the pod terminates. A pod is deleted
    `deleted_after_s` from its arrival, bound or not; None: never. `end_order` is the recorded order
    of what ended at one time. `gang` is the number of the
    `count` pods that start together or not at all, 0 for single pods.

    For the `kind` ANSWER a request, the effect named `obj`, was made after `waited_s` and took
    `duration_s`.
    """

    where: str
    at_s: float = 0.0
    duration_s: float | None = None
    waited_s: float | None = None
    termination_s: float | None = None
    deleted_after_s: float | None = None
    end_order: int = 0
    namespace: str = ""
    shape: str = ""
    count: int = 1
    gang: int = 0
    requests: tuple[tuple[str, str], ...] = ()
    pod: Pod | None = None
    kind: str = ""
    obj: Any = None


class RecordedAnswers:
    """Times of requests and of their answers, by the name of the effect; each is used once."""

    def __init__(self) -> None:
        self._times: dict[str, list[tuple[float, float, int]]] = {}

    def add(self, name: str, sent_at: float, took_s: float, order: int) -> None:
        """Add a request that was made at a time, the seconds until its answer, and its order."""
        heappush(self._times.setdefault(name, []), (sent_at, sent_at + took_s, order))

    def take(self, name: str, now: float) -> tuple[float, int] | None:
        """Return the time and order of the answer to a request that is made `now`.

        None if the recording has no such request from now until LATENCY_S later.
        """
        times = self._times.get(name, [])
        while times and times[0][0] < now:
            heappop(times)
        if not times or times[0][0] > now + LATENCY_S:
            return None
        _, at, order = heappop(times)
        return at, order
