"""Sakkara's groups: a labelled ConfigMap describes one, a label on the pods names it.

Keys, their meaning and their defaults are Sakkara's; an unknown or invalid key is an error.
"""

from collections.abc import Mapping

from scheduler.base.errors import ObjectError
from scheduler.groups.description import classes
from scheduler.groups.description.rules import constraints
from scheduler.groups.description.spec import LARGEST_GROUP, GroupSpec
from scheduler.groups.sources.claim import by_label
from scheduler.groups.sources.inputs import LARGEST_NUMBER, json_object, whole_number
from scheduler.groups.sources.served import renamed
from scheduler.objects.configmap import GROUP_KEY, ConfigMap

KIND = "GroupConfigMap"
LABEL = "sakkara.group.name"
CLAIM = by_label(LABEL, "ConfigMap", (KIND,))
BOUND = "Bound"  # the status of a group all of whose members are bound
DEFAULT_GROUP = "default-group"
# The keys that we write.
REPORTED = frozenset(
    (
        "status", "message", "placement", "proof", "rank", "preemptor",
        "schedBeginTime", "schedEndTime", "schedTotalTimeMilli", "schedSolverTimeMilli",
    )
)  # fmt: skip

# The fields that describe a group, as `managedFields` names them.
_SET_FIELDS = (
    ("f:metadata", "f:labels", f"f:{GROUP_KEY}"),
    ("f:data", "f:name"),
    ("f:data", "f:size"),
)


def name_in(data: Mapping[str, str]) -> str:
    """Return the group's name in a group ConfigMap."""
    return data.get("name", "").strip() or DEFAULT_GROUP


def from_config_map(namespace: str, data: Mapping[str, str], source: str) -> GroupSpec:
    """Read a group ConfigMap; ObjectError names the key that is wrong."""
    size = whole_number(data, "size", 1, least=1)
    if size > LARGEST_GROUP:
        raise ObjectError(f"data.size: {size} is more than the largest group, {LARGEST_GROUP}")
    found = classes.read(data, LARGEST_GROUP)
    return GroupSpec(
        namespace,
        name_in(data),
        size,
        whole_number(data, "priority", 0, least=-LARGEST_NUMBER),
        constraints(json_object(data, "constraints"), "data.constraints"),
        source,
        topology=data.get("topology", "").strip(),
        is_ours=True,
        has_classes=found is not None,
        classes=found,
    )


class ConfigMapGroups:
    """The source of group ConfigMaps."""

    kind = KIND
    served_as = "ConfigMap"
    api_version = "v1"
    label = "ConfigMap"

    def key(self, obj: ConfigMap) -> str:
        """Return `namespace/name`, with the name that the ConfigMap gives."""
        return f"{obj.metadata.namespace}/{name_in(obj.data or {})}"

    def read(self, obj: ConfigMap) -> GroupSpec:
        """Return the group that the ConfigMap describes; ObjectError names the invalid key."""
        meta = obj.metadata
        name = f"ConfigMap {meta.namespace}/{meta.name}"
        return from_config_map(meta.namespace, obj.data or {}, name)

    def was_placed(self, obj: ConfigMap) -> bool:
        """Return whether its status is Bound."""
        return (obj.data or {}).get("status") == BOUND

    def size_set_at(self, obj: ConfigMap) -> str | None:
        """Return the time since which it has its name and size, None if that is unknown.

        `managedFields` records when each field was set, but not when a key was removed.
        """
        times = [obj.set_at(*path) for path in _SET_FIELDS]
        times.append(obj.metadata.creation_timestamp)
        known = [time for time in times if time is not None]
        return max(known) if len(known) == len(times) else None

    def renamed(self, obj: ConfigMap, name: str) -> ConfigMap:
        """Return a copy of the ConfigMap under another name."""
        described = {key: text for key, text in (obj.data or {}).items() if key not in REPORTED}
        return renamed(obj, name, data={**described, "name": name})


SOURCE = ConfigMapGroups()
