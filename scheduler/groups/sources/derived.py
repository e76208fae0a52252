"""Groups derived from workload objects, where a profile asks for it (`derive`)."""

from msgspec.structs import replace

from scheduler.groups.description.spec import GroupSpec
from scheduler.objects.derivedgroups import KIND as OF_ENGINE
from scheduler.objects.derivedgroups import DerivedGroup
from scheduler.objects.pod import Pod

KIND = OF_ENGINE
PREFIX = "derived:"


def key_of(pod: Pod) -> str:
    """Return the key of the group that the engine has derived for a pod, '' for none."""
    return f"{PREFIX}{pod.metadata.namespace}/{pod.derived_group}" if pod.derived_group else ""


class DerivedGroups:
    """The source of derived groups; no object of the API server describes them, so nothing is
    written.
    """

    kind = KIND
    served_as = KIND
    api_version = ""
    label = "derived"

    def key(self, obj: DerivedGroup) -> str:
        """Return `namespace/name` behind the word that sets these groups apart."""
        return f"{PREFIX}{obj.metadata.namespace}/{obj.metadata.name}"

    def read(self, obj: DerivedGroup) -> GroupSpec:
        """Return what it asks for: its size as a minimum, members of any roles."""
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
        """Return False: its pods alone tell."""
        del obj
        return False

    def renamed(self, obj: DerivedGroup, name: str) -> DerivedGroup:
        """Return a group of this name that asks for the same."""
        meta = replace(obj.metadata, name=name, uid=f"{obj.metadata.uid}-{name}")
        return replace(obj, metadata=meta)


SOURCE = DerivedGroups()
