"""`RecordedAnswers`: when the requests of a recorded run were answered."""

from heapq import heappop, heappush

from scheduler.simulate.traces.arrival import LATENCY_S


class RecordedAnswers:
    """Times of requests and of their answers, by the name of the effect; each is used once."""

    def __init__(self) -> None:
        self._times: dict[str, list[tuple[float, float, int]]] = {}

    def add(self, name: str, asked_at: float, took_s: float, order: int) -> None:
        """Add a request that was made at a time, the seconds until its answer, and its order."""
        heappush(self._times.setdefault(name, []), (asked_at, asked_at + took_s, order))

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
