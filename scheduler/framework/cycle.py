"""`Cycle`: what one scheduling attempt is about; lives for that attempt."""

from random import Random

import msgspec

from scheduler.objects.pod import Pod
from scheduler.state.shapes import Shape


class Cycle(msgspec.Struct, frozen=True):
    """The pod under decision, its interned shape, the time and the random source of the attempt.

    `now` is seconds since the epoch; `random` is the engine's own seeded source.
    """

    pod: Pod
    shape: Shape
    now: float
    random: Random
    profile: str = ""
