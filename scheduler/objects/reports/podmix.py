"""PodMixHistory (trellis.dev/v1alpha1): the shapes of pods that have left the cluster.

Written by FragmentationAware of the leading daemon; every daemon and every simulation counts these
shapes as part of the mix of pods. The amounts are checked while decoding, so that an unreadable
object is reported with its name and the last readable one stays in use.
"""

from typing import Annotated

import msgspec

from scheduler.objects.meta import Object, ObjectMeta

# Limit of shapes in one object, as in the schema.
MOST_HISTORY_SHAPES = 128

Moment = Annotated[str, msgspec.Meta(pattern=r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)?$")]
Amount = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,18}(m|Ki|Mi|Gi|Ti|Pi)?$")]
Weight = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Devices = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
Milli = Annotated[int, msgspec.Meta(ge=1, le=1000)]


class HistoryShape(Object, frozen=True):
    """A shape of pods: its number `weight` (decayed), requests, devices, part of each, models."""

    weight: Weight = 0.0
    cpu: Amount = "0"
    memory: Amount = "0"
    devices: Devices = 0
    milli: Milli = 1000
    models: tuple[str, ...] = ()


class PodMixHistory(Object, frozen=True):
    """The pods that had left by `as_of` (RFC 3339), each halved per half-life since it left."""

    metadata: ObjectMeta = ObjectMeta()
    as_of: Moment = ""
    shapes: Annotated[tuple[HistoryShape, ...], msgspec.Meta(max_length=MOST_HISTORY_SHAPES)] = ()
