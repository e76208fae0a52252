"""`Derivation`: the derived group of a pod, by its profile, its namespace and its labels."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from scheduler.base.errors import TrellisError
from scheduler.base.text import did_you_mean
from scheduler.objects.groups.derivedgroups import (
    ANNOTATION,
    OBJECT_OF,
    DerivedGroup,
    DeriveKinds,
    derived,
    group_named,
    kinds_of,
    requested,
)
from scheduler.objects.pod import Pod
from scheduler.objects.workloads import Namespace
from scheduler.state.change import Change

NAMESPACE: Final = "Namespace"


class Derivation:
    """Derive groups of pods from workloads, for profiles that request it.

    `namespace_of` returns a namespace by its name, if it is known. `fault` receives a namespace
    whose annotation names a kind that no profile offers.
    """

    def __init__(
        self,
        wanted: Mapping[str, DeriveKinds],
        namespace_of: Callable[[str], Namespace | None],
        fault: Callable[[str, str, Exception], None],
    ) -> None:
        self._namespace_of = namespace_of
        self._wanted = wanted
        self._fault = fault
        self._offered = frozenset(kind for one in wanted.values() for kind in one.on_request)
        self.kinds = self._offered.union(*(one.always for one in wanted.values()))

    def with_group(self, pod: Pod) -> Pod:
        """Return a pod with the group that its profile derives for it, '' for none."""
        wanted = self._wanted.get(pod.spec.scheduler_name) if self._wanted else None
        if wanted is None:
            return replace(pod, derived_group="") if pod.derived_group else pod
        kinds = wanted.always
        if wanted.on_request - kinds:
            kinds |= wanted.on_request & self._requested(pod.metadata.namespace)
        name = group_named(pod, kinds) if kinds else ""
        return pod if name == pod.derived_group else replace(pod, derived_group=name)

    def changed(self, change: Change) -> tuple[list[DerivedGroup], list[DerivedGroup]]:
        """Return the groups that end with a change of a workload, and those that are new."""
        before, after = (
            {} if obj is None else derived(change.kind, obj) for obj in (change.old, change.new)
        )
        gone = [group for name, group in before.items() if name not in after]
        return gone, [group for name, group in after.items() if before.get(name) != group]

    def requests_differ(self, change: Change) -> bool:
        """Return whether a namespace requests other kinds since a change; report unknown ones."""
        if not self._offered or change.kind != NAMESPACE:
            return False
        before, after = (() if one is None else requested(one) for one in (change.old, change.new))
        if before != after and change.new is not None:
            self._check(change.new, after)
        return before != after

    def _requested(self, name: str) -> frozenset[str]:
        found = self._namespace_of(name)
        if found is None or not found.metadata.annotations.derive_groups:
            return frozenset()
        return kinds_of([word for word in requested(found) if word in OBJECT_OF])

    def _check(self, namespace: Namespace, words: tuple[str, ...]) -> None:
        offered = [word for word, kind in OBJECT_OF.items() if kind in self._offered]
        for word in words:
            if word not in offered:
                text = (
                    f'annotation {ANNOTATION}: no profile offers "{word:.80}" in deriveOnRequest'
                    f"{did_you_mean(word[:80], offered)}; offered are {', '.join(offered)}"
                )
                self._fault(NAMESPACE, namespace.metadata.name, TrellisError(text))
                return
