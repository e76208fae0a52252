"""ConfigMaps that describe groups and trees for the scheduler (Sakkara).

A label key selects them, with one watch each, so that other ConfigMaps are never read.
"""

from collections.abc import Iterator
from typing import Any

from scheduler.objects.meta import Object, ObjectMeta

GROUP_KEY = "sakkara.group"
TOPOLOGY_KEY = "sakkara.topology"


class FieldsRecord(Object, frozen=True):
    """The fields that one manager has set (`f:data` → `f:size` → …), and when it last changed
    one.
    """

    time: str | None = None
    fields_v1: dict[str, Any] | None = None


class ConfigMapMeta(ObjectMeta, frozen=True):
    """`metadata` with managed fields."""

    managed_fields: tuple[FieldsRecord, ...] = ()


class ConfigMap(Object, frozen=True):
    """A ConfigMap; `data` is None if it is empty."""

    metadata: ConfigMapMeta = ConfigMapMeta()
    data: dict[str, str] | None = None

    def set_at(self, *path: str) -> str | None:
        """Return a time (RFC 3339) after which a field was not set again, None if none is recorded.

        The latest of several times: the manager may have set other fields in the meantime. An
        example of a path is `f:data`, `f:size`.
        """
        return max(self._times(path), default=None)

    def _times(self, path: tuple[str, ...]) -> Iterator[str]:
        for one in self.metadata.managed_fields:
            at: Any = one.fields_v1
            for step in path:
                at = at.get(step) if isinstance(at, dict) else None
            if one.time and at is not None:
                yield one.time
