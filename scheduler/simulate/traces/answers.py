"""`RecordedAnswers`: when the solver answered the questions of a recorded run."""

from heapq import heappop, heappush

from scheduler.simulate.traces.arrival import LATENCY_S


class RecordedAnswers:
    """Times of questions and of their answers; each answer is used once."""

    def __init__(self) -> None:
        self._times: list[tuple[float, float]] = []

    def add(self, asked_at: float, took_s: float) -> None:
        """Add a question that was asked at a time, and the seconds until its answer."""
        heappush(self._times, (asked_at, asked_at + took_s))

    def take(self, now: float) -> float | None:
        """Return the time of the answer to a question that is asked `now`.

        None if the recording has no question from now until LATENCY_S later.
        """
        while self._times and self._times[0][0] < now:
            heappop(self._times)
        if not self._times or self._times[0][0] > now + LATENCY_S:
            return None
        return heappop(self._times)[1]
