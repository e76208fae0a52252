"""ConfigMaps that say something to the scheduler (Sakkara's groups and tree), and PodGroups.

They are told apart by a label key, one watch for each, so that other ConfigMaps are never read.
"""

from __future__ import annotations

from scheduler.objects.meta import AnnotatedMeta, Int32, Object, ObjectMeta

GROUP_KEY = "sakkara.group"
TOPOLOGY_KEY = "sakkara.topology"


class ConfigMap(Object, frozen=True):
    """A ConfigMap; `data` is None when it holds none."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None


class PodGroupSpec(Object, frozen=True):
    """What a PodGroup asks for; `min_member` 0 stands for none given."""

    min_member: Int32 = 0


class PodGroup(Object, frozen=True):
    """A PodGroup of scheduling.x-k8s.io."""

    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: PodGroupSpec = PodGroupSpec()
