"""ConfigMaps that say something to the scheduler: Sakkara's groups and tree.

They are told apart by a label key, one watch for each, so that other ConfigMaps are never read.
"""

from collections.abc import Iterator
from typing import Any

from scheduler.objects.meta import Object, ObjectMeta

GROUP_KEY = "sakkara.group"
TOPOLOGY_KEY = "sakkara.topology"


class FieldsRecord(Object, frozen=True):
    """Which fields somebody has set (`f:data` → `f:size` → …), and when they last changed one of them."""

    time: str | None = None
    fields_v1: dict[str, Any] | None = None


class ConfigMapMeta(ObjectMeta, frozen=True):
    """`metadata` with who set which fields."""

    managed_fields: tuple[FieldsRecord, ...] = ()


class ConfigMap(Object, frozen=True):
    """A ConfigMap; `data` is None when it holds none."""

    metadata: ConfigMapMeta = ConfigMapMeta()
    data: dict[str, str] | None = None

    def set_at(self, *path: str) -> str | None:
        """Return a time (RFC 3339) after which a field was not set anew, None where the API server noted none.

        Of several times the latest: somebody may have set other fields in the meantime. An example of a path is
        `f:data`, `f:size`.
        """
        return max(self._times(path), default=None)

    def _times(self, path: tuple[str, ...]) -> Iterator[str]:
        for one in self.metadata.managed_fields:
            at: Any = one.fields_v1
            for step in path:
                at = at.get(step) if isinstance(at, dict) else None
            if one.time and at is not None:
                yield one.time
