"""The mix of a cluster's pods: shapes with their shares."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

WHOLE = 1000  # milli of a device
# Limit of shapes in a mix.
MOST_SHAPES = 128
# The mix is compared after this many changes, or after this part of its pods.
_LEAST_CHANGES = 16
_PART_CHANGED = 16
# A mix from this many times the pods replaces the one in use however near it is: shares of 1,000
# pods may cost a twentieth of the allocated devices on openb, within a distance of 0.1.
_GROWTH = 1.5


class MixShape(msgspec.Struct, frozen=True, order=True):
    """A pod's requirements: limiting resources, devices, milli of each, and models.

    `beside` has one amount per limiting resource, in the order of the tables. `models` are the
    accelerator models that the pod admits; none means any. `devices` is a fraction only where cpu
    or memory counts as devices.
    """

    beside: tuple[int, ...]
    devices: float = 0
    milli: int = 0
    models: tuple[str, ...] = ()

    @property
    def is_shared(self) -> bool:
        """Return whether the pod uses a part of one device."""
        return self.devices == 1 and 0 < self.milli < WHOLE

    @property
    def amount(self) -> float:
        """Return the pod's use in devices."""
        return self.devices * self.milli / WHOLE

    def admits(self, model: str) -> bool:
        """Return whether it may run on devices of a model."""
        return not self.models or model in self.models


class Mix(msgspec.Struct, frozen=True):
    """Shapes with their shares; the shares add up to 1, or there are no shapes.

    `pods` is the number of pods behind the shares, as the sum of their weights.
    """

    shapes: tuple[tuple[MixShape, float], ...] = ()
    pods: float = 0.0

    def distance(self, other: "Mix") -> float:
        """Return the total variation distance, 0 (equal) to 1 (no shape in common)."""
        mine, others = dict(self.shapes), dict(other.shapes)
        if not mine or not others:
            return float(bool(mine) != bool(others))
        both = mine.keys() | others.keys()
        return sum(abs(mine.get(shape, 0.0) - others.get(shape, 0.0)) for shape in both) / 2

    def replaces(self, used: "Mix", max_drift: float) -> bool:
        """Return whether to replace the mix in use by this one.

        It is more than `max_drift` away, or its shares were drawn from so few pods that those of
        this mix are more certain.
        """
        has_grown = self.pods >= _GROWTH * used.pods and self.shapes != used.shapes
        return has_grown or self.distance(used) > max_drift


def is_due(changes: int, pods: int) -> bool:
    """Return whether to compare the mix with the one in use after this many changes."""
    return changes >= max(_LEAST_CHANGES, pods // _PART_CHANGED)


class SeenShapes:
    """The mix of counted shapes, and when it is far enough from the one in use to replace it."""

    def __init__(self, max_drift: float) -> None:
        self.counts: Counter[MixShape] = Counter()
        self._max_drift = max_drift
        self._used = Mix()
        self._changes = self._pods = 0

    def add(self, shape: MixShape) -> None:
        """Count one pod."""
        self.counts[shape] += 1
        self._changes += 1
        self._pods += 1

    def renewed(self) -> Mix | None:
        """Return a mix that replaces the one in use, None if that one is near enough."""
        if not is_due(self._changes, self._pods):
            return None
        self._changes = 0
        mix = mix_of(self.counts, MOST_SHAPES)
        if not mix.replaces(self._used, self._max_drift):
            return None
        self._used = mix
        return mix


def mix_of(counts: Mapping[MixShape, float], most: int = 0) -> Mix:
    """Return the mix of counted shapes; with `most`, of those that demand the most devices."""
    ordered = sorted(
        ((shape, count) for shape, count in counts.items() if count > 0),
        key=lambda entry: (-entry[1] * entry[0].amount, -entry[1], entry[0]),
    )
    kept: Sequence[tuple[MixShape, float]] = ordered[:most] if most else ordered
    total = float(sum(count for _, count in kept))
    return Mix(tuple((shape, count / total) for shape, count in sorted(kept)), total)
