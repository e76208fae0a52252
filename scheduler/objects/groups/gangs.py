"""Groups of other schedulers' tools: KAI's PodGroup (scheduling.run.ai) and Grove's PodGang.

The fields that determine the placement of pods. Fields that are read only to be rejected are kept
undecoded. They are interpreted in `scheduler.groups.sources`: `kai`, `grove`.
"""

from typing import Any

from scheduler.objects.meta import AnnotatedMeta, Int32, Object


class KaiTopology(Object, frozen=True):
    """The node labels within whose values the pods are placed."""

    topology: str = ""
    required_topology_level: str = ""
    preferred_topology_level: str = ""


class KaiSubGroup(Object, frozen=True):
    """A part of the group, whose pods carry its name in a label."""

    name: str = ""
    min_member: Int32 | None = None
    parent: str | None = None
    min_sub_group: Any = None
    topology_constraint: KaiTopology | None = None


class KaiGroupSpec(Object, frozen=True):
    """The spec of a PodGroup of KAI; `min_member` 0 is unset."""

    min_member: Int32 = 0
    min_sub_group: Any = None
    queue: str = ""
    priority_class_name: str = ""
    preemptibility: str = ""
    topology_constraint: KaiTopology = KaiTopology()
    sub_groups: tuple[KaiSubGroup, ...] = ()


class KaiPodGroup(Object, frozen=True):
    """A PodGroup of KAI."""

    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: KaiGroupSpec = KaiGroupSpec()


class GrovePack(Object, frozen=True):
    """The node labels within whose values the pods are packed."""

    required: str = ""
    preferred: str = ""


class GroveTopology(Object, frozen=True):
    """The topology constraint of a PodGang or of a part of it."""

    pack_constraint: GrovePack | None = None


class GrovePodGroup(Object, frozen=True):
    """The pods of one PodClique; at least `min_replicas` of them start together."""

    name: str = ""
    min_replicas: Int32 = 0
    topology_constraint: GroveTopology | None = None


class PodGangSpec(Object, frozen=True):
    """The spec of a PodGang."""

    podgroups: tuple[GrovePodGroup, ...] = ()
    topology_constraint: GroveTopology | None = None
    topology_constraint_group_configs: tuple[Any, ...] = ()
    priority_class_name: str = ""


class PodGang(Object, frozen=True):
    """A PodGang of scheduler.grove.io."""

    metadata: AnnotatedMeta = AnnotatedMeta()
    spec: PodGangSpec = PodGangSpec()
