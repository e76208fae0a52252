"""The constraints of a profile for pods without their own, cached per shape of pods.

They follow from the services of the pod's namespace and from its controller; the result for a shape
is valid until one of these selectors changes. For pods without either, the cost is one look-up.
"""

from weakref import WeakKeyDictionary

import msgspec

from scheduler.framework import Cycle, Handle, Pod
from scheduler.objects.pod import TopologySpreadConstraint
from scheduler.plugins.spread.args import ACTIONS, PodTopologySpreadArgs
from scheduler.plugins.spread.constraints import (
    NO_CONSTRAINTS,
    SYSTEM_DEFAULTS,
    Constraints,
    default_constraints,
)
from scheduler.plugins.spread.owners import Selector, Services, controller_of, selected_by
from scheduler.state.shapes import Shape, is_controlled


class _Known(msgspec.Struct, frozen=True):
    """Default constraints by action, with the inputs that they were derived from."""

    generation: int
    controller: Selector
    by_action: dict[str, Constraints]


class Defaults:
    """Gives pods the constraints of the profile."""

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        self._is_system = args.defaulting_type == "System"
        written = SYSTEM_DEFAULTS if self._is_system else args.default_constraints
        self._written: dict[str, tuple[TopologySpreadConstraint, ...]] = {
            action: tuple(one for one in written if one.when_unsatisfiable == action)
            for action in ACTIONS
        }
        self._handle = handle
        self._services = handle.tracker(Services)
        # The selectors that `may_spread` reads beside the pod.
        self.follows = (self._services,)
        self._known: WeakKeyDictionary[Shape, _Known] = WeakKeyDictionary()

    def of(self, cycle: Cycle, action: str) -> Constraints:
        """Return the profile's constraints of one action for the cycle's pod."""
        if not self._written[action]:
            return NO_CONSTRAINTS
        meta = cycle.pod.metadata
        generation = self._services.generation(meta.namespace)
        if not generation and not is_controlled(cycle.pod):
            return NO_CONSTRAINTS
        controller = self._controller(cycle.pod)
        known = self._known.get(cycle.shape)
        if known is None or known.generation != generation or known.controller != controller:
            by_action = {each: self._made(cycle.pod, controller, each) for each in ACTIONS}
            known = self._known[cycle.shape] = _Known(generation, controller, by_action)
        return known.by_action[action]

    def may_spread(self, pod: Pod) -> bool:
        """Return whether a pod may get some now.

        Of a controller's pods that is not known beforehand.
        """
        if not any(self._written.values()):
            return False
        if is_controlled(pod):
            return True
        made = [self._made(pod, None, action) for action in ACTIONS]
        return any(each.items or each.fault for each in made)

    def of_pod(self, pod: Pod, action: str) -> Constraints:
        """Return the same for a pod outside a cycle, without the cache."""
        return self._made(pod, self._controller(pod), action)

    def _made(self, pod: Pod, controller: Selector, action: str) -> Constraints:
        written = self._written[action]
        if not written:
            return NO_CONSTRAINTS
        expressions = selected_by(self._services.selecting(pod), controller)
        return default_constraints(
            pod, written, expressions, ignores_unlabelled=not self._is_system
        )

    def _controller(self, pod: Pod) -> Selector:
        owner = controller_of(pod)
        if owner is None:
            return None
        found = self._handle.objects(owner.kind).get(f"{pod.metadata.namespace}/{owner.name}")
        selector: Selector = found.spec.selector if found is not None else None
        return selector
