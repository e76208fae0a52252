"""Arguments of FragmentationAware."""

import re
from collections.abc import Iterator

import msgspec

from scheduler.base.errors import ObjectError
from scheduler.framework import Args
from scheduler.objects.quantity import resource_amount
from scheduler.plugins.fragmentation.mix import WHOLE

MOST_SHAPES = 256
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class ShapeSpec(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A shape of expected pods: requests, devices, the share of one device, models.

    `milli` is the part of a device in thousandths; it is below 1000 only with one device. `weight`
    is its frequency relative to the other shapes.
    """

    weight: float = 1.0
    cpu: str = "0"
    memory: str = "0"
    devices: int = 0
    milli: int = WHOLE
    models: tuple[str, ...] = ()


class FragmentationAwareArgs(Args):
    """Which resources are devices, which resources limit their use, and the expected pods.

    `resources` are extended resources whose units are devices, or one of cpu and memory: then an
    eighth of the largest node counts as a device, and the other one is named in `beside`.
    `shapesWeight` is the number of bound pods that `shapes` weigh as much as. Tables are recomputed
    when the mix has moved by more than `maxDrift` (total variation distance, 0 to 1), or is that of
    half as many pods again. With `keepsOthersOff`, for pods that use no device, a node with devices
    scores below every node without. `history` names a PodMixHistory, in which pods that have left
    count for the mix; '' keeps none. Their weight halves every `historyHalfLifeHours`, and the
    leader writes it at most once in `historyPeriodSeconds`.
    """

    resources: tuple[str, ...] = ("nvidia.com/gpu", "amd.com/gpu")
    drivers: tuple[str, ...] = ()
    device_classes: tuple[str, ...] = ()
    beside: tuple[str, ...] = ("cpu",)
    model_label: str = "nvidia.com/gpu.product"
    shapes: tuple[ShapeSpec, ...] = ()
    shapes_weight: int = 1000
    max_drift: float = 0.1
    history: str = ""
    history_half_life_hours: int = 168
    history_period_seconds: int = 300
    chooses_devices: bool = True
    keeps_others_off: bool = False
    whole_node_bonus: float = 0.005
    device_fit: float = 0.01
    node_fit: float = 0.01
    beside_fit: float = 0.01

    @property
    def divisible(self) -> str:
        """Return cpu or memory if that counts as devices, else ''."""
        return next((name for name in self.resources if name in ("cpu", "memory")), "")

    def validate(self) -> Iterator[tuple[str, str]]:
        """Yield the fields out of range."""
        if self.divisible and len(self.resources) > 1:
            yield "resources", f"Invalid value: {list(self.resources)}: cpu or memory must be alone"
        if self.divisible and self.divisible in self.beside:
            yield "beside", f"Invalid value: {list(self.beside)}: must not repeat resources"
        if not self.beside or not set(self.beside) <= {"cpu", "memory"}:
            yield "beside", f"Invalid value: {list(self.beside)}: must name cpu, memory or both"
        if len(self.shapes) > MOST_SHAPES:
            yield "shapes", f"Too many: {len(self.shapes)}: must have at most {MOST_SHAPES} items"
        if self.shapes_weight < 1:
            yield "shapesWeight", f"Invalid value: {self.shapes_weight}: must be at least 1"
        if not 0 < self.max_drift <= 1:
            yield "maxDrift", f"Invalid value: {self.max_drift}: must be above 0 and at most 1"
        if self.history and not _NAME.fullmatch(self.history):
            yield (
                "history",
                f'Invalid value: "{self.history}": must be the name of an object',
            )
        for name, value in (
            ("historyHalfLifeHours", self.history_half_life_hours),
            ("historyPeriodSeconds", self.history_period_seconds),
        ):
            if not 1 <= value <= 1_000_000:
                yield name, f"Invalid value: {value}: must be between 1 and 1000000"
        for name in ("whole_node_bonus", "device_fit", "node_fit", "beside_fit"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                first, *rest = name.split("_")
                field = first + "".join(part.capitalize() for part in rest)
                yield field, f"Invalid value: {value}: must be between 0 and 1"
        for index, shape in enumerate(self.shapes):
            for field, text in _shape_faults(shape):
                yield f"shapes[{index}].{field}", text


def _shape_faults(shape: ShapeSpec) -> Iterator[tuple[str, str]]:
    if not shape.weight > 0:
        yield "weight", f"Invalid value: {shape.weight}: must be positive"
    for name in ("cpu", "memory"):
        text = getattr(shape, name)
        try:
            resource_amount(name, text)
        except ObjectError:
            yield name, f'Invalid value: "{text}": must be a quantity such as "4" or "16Gi"'
    if not 0 <= shape.devices <= 1024:
        yield "devices", f"Invalid value: {shape.devices}: must be between 0 and 1024"
    if not 1 <= shape.milli <= WHOLE:
        yield "milli", f"Invalid value: {shape.milli}: must be between 1 and {WHOLE}"
    elif shape.milli < WHOLE and shape.devices != 1:
        yield "milli", f"Invalid value: {shape.milli}: needs devices: 1, has {shape.devices}"
