"""Derived groups of a snapshot: the groups of its pods, and the objects that describe these.

No API object states a derived group: a snapshot has none as it is read. Every answer derives them
here, by the rules of the engine, so that a group is found by name whatever kind of object describes
it. Pure.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from scheduler.config.load import Loaded
from scheduler.engine.derivation import Derivation
from scheduler.engine.settings import derived_kinds
from scheduler.objects.groups.derivedgroups import KIND, derived
from scheduler.objects.pod import Pod
from scheduler.objects.workloads import Namespace
from scheduler.snapshot.snapshot import Snapshot
from scheduler.state.store import object_key


def with_derived_groups(snapshot: Snapshot, loaded: Loaded) -> Snapshot:
    """Return a snapshot with the groups that a configuration derives from its workloads.

    A given pod of no profile is placed by the first one. A second call returns an equal snapshot.
    """
    wanted = derived_kinds(loaded)
    if not wanted:
        return snapshot
    spaces = {obj.metadata.name: obj for _, obj in snapshot.objects if isinstance(obj, Namespace)}
    derivation = Derivation(wanted, spaces.get, _ignored)

    profiles = [one.scheduler_name for one in loaded.profiles]

    def grouped(pod: Pod) -> Pod:
        served = pod
        if pod.spec.scheduler_name not in profiles and pod.metadata.uid in snapshot.given:
            served = replace(pod, spec=replace(pod.spec, scheduler_name=profiles[0]))
        name = derivation.with_group(served).derived_group
        return pod if name == pod.derived_group else replace(pod, derived_group=name)

    def of(pods: Iterable[Pod]) -> tuple[Pod, ...]:
        return tuple(map(grouped, pods))

    known = {object_key(obj) for kind, obj in snapshot.objects if kind == KIND}
    described = {
        object_key(group): (KIND, group)
        for kind, obj in snapshot.origins
        if kind in derivation.kinds
        for group in derived(kind, obj).values()
        if object_key(group) not in known
    }
    return replace(
        snapshot,
        objects=(*snapshot.objects, *described.values()),
        bound=of(snapshot.bound),
        unbound=of(snapshot.unbound),
        ended=of(snapshot.ended),
    )


def _ignored(kind: str, key: str, fault: Exception) -> None:
    """Leave a fault to the engine, which reports each namespace that it is given."""
    del kind, key, fault
