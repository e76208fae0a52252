"""Groups derived from workload objects, if a profile configures that (`derive`)."""

from msgspec.structs import replace

from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.sources.served import renamed
from scheduler.objects.groups.derivedgroups import KIND as OF_ENGINE
from scheduler.objects.groups.derivedgroups import DerivedGroup, kind_named, labels_naming
from scheduler.objects.pod import Pod

KIND = OF_ENGINE
PREFIX = "derived:"


def key_of(pod: Pod) -> str:
    """Return the key of the group that the engine has derived for a pod, '' for none; of several
    the first.
    """
    if not pod.derived_group:
        return ""
    name = pod.derived_group.partition(" ")[0]
    return f"{PREFIX}{pod.metadata.namespace}/{name}"


def rivals(pod: Pod) -> str:
    """Return the groups of several workloads that claim a pod, '' for one or none."""
    names = pod.derived_group.split(" ")
    return " and ".join(f"derived group ({name})" for name in names) if len(names) > 1 else ""


def moved(pod: Pod, name: str) -> Pod:
    """Return a copy of a member that is in another group of its workload's kind."""
    labels = {**pod.metadata.labels, **labels_naming(name)}
    return replace(pod, metadata=replace(pod.metadata, labels=labels), derived_group=name)


def missing(key: str) -> str:
    """Return the reason why a member is on hold while its workload is unknown."""
    name = key.rpartition("/")[2]
    kind = kind_named(name)
    return f"no {kind} describes the derived group {name}: it waits until its {kind} is known"


class DerivedGroups:
    """The source of derived groups; no object of the API server describes them, so nothing is
    written.
    """

    kind = KIND
    served_as = KIND
    api_version = ""
    label = "derived"

    def key(self, obj: DerivedGroup) -> str:
        """Return `namespace/name` with a prefix that distinguishes derived groups; '' where the
        object's pods are no group.
        """
        return _key(obj) if obj.is_group else ""

    def lone(self, obj: DerivedGroup) -> str:
        """Return the key of `key` if the object's pods are scheduled one by one, else ''."""
        return "" if obj.is_group else _key(obj)

    def read(self, obj: DerivedGroup) -> GroupSpec:
        """Return the group that the workload describes: its size as a minimum, members of any
        roles.
        """
        meta = obj.metadata
        return GroupSpec(
            meta.namespace,
            meta.name,
            obj.size,
            None,
            source=f"{obj.of} {meta.namespace}/{obj.owner}",
            is_minimum=True,
            may_shrink=True,
            has_classes=True,
        )

    def was_placed(self, obj: DerivedGroup) -> bool:
        """Return False: only its pods show it."""
        del obj
        return False

    def renamed(self, obj: DerivedGroup, name: str) -> DerivedGroup:
        """Return a copy of the workload under another name."""
        return renamed(obj, name)


def _key(obj: DerivedGroup) -> str:
    return f"{PREFIX}{obj.metadata.namespace}/{obj.metadata.name}"


SOURCE = DerivedGroups()
