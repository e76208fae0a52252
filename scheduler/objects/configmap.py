"""ConfigMaps that say something to the scheduler: Sakkara's groups and tree.

They are told apart by a label key, one watch for each, so that other ConfigMaps are never read.
"""

from scheduler.objects.meta import Object, ObjectMeta

GROUP_KEY = "sakkara.group"
TOPOLOGY_KEY = "sakkara.topology"


class ConfigMap(Object, frozen=True):
    """A ConfigMap; `data` is None when it holds none."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None
