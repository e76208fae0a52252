"""`Cycle`: the pod, time and random source of one scheduling attempt; lives for that attempt."""

from random import Random

import msgspec

from scheduler.objects.pod import Pod
from scheduler.state.shapes import Shape


class Cycle(msgspec.Struct, frozen=True):
    """The pod to schedule, its interned shape, the time and the random source of the attempt.

    `now` is seconds since the epoch; `random` is the engine's own seeded source.
    """

    pod: Pod
    shape: Shape
    now: float
    random: Random
    profile: str = ""
