"""The pools of one node: the devices it can use, in the order of allocation.

Built from resource slices as kube-scheduler's allocator gathers them; its order is an interface
that drivers rely on: pools by driver and name, those with binding conditions last, slices by name,
devices as written. Facts about a device do not change until its slice does. Pure functions.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from scheduler.objects.devices import CounterConsumption, Device, ResourceSlice
from scheduler.objects.node import Node
from scheduler.objects.pod import NodeSelector
from scheduler.plugins.dynamicresources.allocation.amounts import amount
from scheduler.plugins.nodeselection import any_of

# driver, pool, device
DeviceId: TypeAlias = tuple[str, str, str]
PoolId: TypeAlias = tuple[str, str]
# (counter set, counter) → amount in 10**-9
Counters: TypeAlias = dict[tuple[str, str], int]

INCOMPLETE = "currently being updated"
INVALID = "currently invalid"


class Slot:
    """A device of a pool from the view of one node (or several equivalent ones).

    `content` is the number of the device's properties apart from its name; `is_here` states that
    the node can use it, also in a slice with node selection per device. `taken` are the counters
    that it uses.
    """

    __slots__ = ("content", "device", "id", "is_here", "slice", "taken")

    def __init__(
        self, device: Device, owner: ResourceSlice, content: int, *, is_here: bool
    ) -> None:
        self.device = device
        self.slice = owner
        self.id: DeviceId = (owner.spec.driver, owner.spec.pool.name, device.name)
        self.content = content
        self.is_here = is_here
        self.taken = consumption(device.consumes_counters) if device.consumes_counters else None

    @property
    def node_name(self) -> str | None:
        """Return the only node that can use the device, if there is one."""
        spec = self.slice.spec
        return self.device.node_name if spec.per_device_node_selection else spec.node_name

    @property
    def node_selector(self) -> NodeSelector | None:
        """Return the nodes that can use the device; None is no restriction."""
        spec = self.slice.spec
        return self.device.node_selector if spec.per_device_node_selection else spec.node_selector


class PoolView(msgspec.Struct, frozen=True, eq=False):
    """A pool from the view of nodes; `fault` states why nothing is allocated from it.

    `counters` are all that its devices share, `elsewhere` the devices that use them and cannot be
    used here. `published` are the names of all its devices if it has counters. `is_here` is False
    for a pool of which the node uses the counters alone. `layout` is equal for views with the same
    course of the search.
    """

    id: PoolId
    fault: str = ""
    slots: tuple[Slot, ...] = ()
    counters: Mapping[tuple[str, str], int] = {}
    elsewhere: tuple[tuple[DeviceId, Counters], ...] = ()
    has_conditions: bool = False
    layout: Any = None
    published: frozenset[str] = frozenset()
    is_here: bool = True


def node_matches(
    node: Node, name: str | None, selector: NodeSelector | None, *, all_nodes: bool
) -> bool:
    """Return whether a node is the one named, or one of those selected."""
    if name:
        return node.metadata.name == name
    if all_nodes or selector is None:
        return all_nodes
    terms = any_of(selector)
    return terms is not None and terms.matches(node)


def has_compatibility_groups(one: ResourceSlice) -> bool:
    """Return whether devices of a slice name the groups with which they share counters."""
    return any(
        used.compatibility_groups
        for device in one.spec.devices
        for used in device.consumes_counters
    )


def is_relevant(one: ResourceSlice, node: Node) -> bool:
    """Return whether a slice has devices that the node can use, or counters."""
    spec = one.spec
    if spec.shared_counters:
        return True
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        return node_matches(node, spec.node_name, spec.node_selector, all_nodes=spec.all_nodes)
    return spec.per_device_node_selection and any(_is_here(one, d, node) for d in spec.devices)


def reaches(one: ResourceSlice, node: Node) -> bool:
    """Return whether a node may use devices of a slice's pool, by the slice's node selection."""
    spec = one.spec
    if spec.per_device_node_selection:
        # Counters name no node then; their devices may be in slices that are not published yet.
        return bool(spec.shared_counters) or any(_is_here(one, d, node) for d in spec.devices)
    return node_matches(node, spec.node_name, spec.node_selector, all_nodes=spec.all_nodes)


def places_of(one: ResourceSlice, node: Node) -> tuple[bool, ...]:
    """Return which devices of a slice with node selection per device the node can use."""
    if not one.spec.per_device_node_selection:
        return ()
    return tuple(_is_here(one, device, node) for device in one.spec.devices)


def newest(slices: Iterable[ResourceSlice]) -> list[ResourceSlice]:
    """Return the slices of the highest generation."""
    found: list[ResourceSlice] = []
    for one in slices:
        ahead = one.spec.pool.generation - found[0].spec.pool.generation if found else 0
        if ahead > 0:
            found = []
        if ahead >= 0:
            found.append(one)
    return found


def view_of(
    pool: PoolId,
    relevant: Sequence[ResourceSlice],
    everything: Collection[ResourceSlice],
    node: Node | None,
    content: Callable[[str, Device], int],
) -> PoolView | None:
    """Return a pool from the view of a node; None while the pool is being replaced.

    `relevant` are the slices that apply to the node (at least one), `everything` all of the pool.
    `node` None has counters only.
    """
    seen = newest(relevant)
    generation, count = seen[0].spec.pool.generation, seen[0].spec.pool.resource_slice_count
    if len(seen) != count:
        # These slices may be outdated: a newer generation may have no devices for this node.
        if any(one.spec.pool.generation > generation for one in everything):
            return None
        same = [one for one in everything if one.spec.pool.generation == generation]
        if len(same) != count:
            return PoolView(pool, INCOMPLETE, layout=(pool[0], INCOMPLETE))
    else:
        same = seen
    seen = sorted(seen, key=lambda one: one.metadata.name)
    names = {one.metadata.name for one in seen}
    others = [one for one in same if one.metadata.name not in names]
    return _built(pool, seen, others, node, content)


def _built(
    pool: PoolId,
    seen: Sequence[ResourceSlice],
    others: Sequence[ResourceSlice],
    node: Node | None,
    content: Callable[[str, Device], int],
) -> PoolView:
    invalid = PoolView(pool, INVALID, layout=(pool[0], INVALID))
    with_devices = [one for one in seen if not one.spec.shared_counters]
    slots = tuple(
        Slot(device, one, content(pool[0], device), is_here=_is_here(one, device, node))
        for one in with_devices
        for device in one.spec.devices
    )
    if len({slot.id for slot in slots}) != len(slots):
        return invalid
    sets = [one for slice_ in seen for one in slice_.spec.shared_counters]
    if len({one.name for one in sets}) != len(sets):
        return invalid
    counters = {
        (one.name, name): amount(counter.value).nanos
        for one in sets
        for name, counter in one.counters.items()
    }
    known = {one.name for one in sets}
    elsewhere = tuple(
        ((pool[0], pool[1], device.name), consumption(device.consumes_counters))
        for one in others
        for device in one.spec.devices
        if device.consumes_counters
    )
    every = [
        one
        for slice_ in (*seen, *others)
        for d in slice_.spec.devices
        for one in d.consumes_counters
    ]
    for one in every:
        if one.counter_set not in known or any(
            (one.counter_set, name) not in counters for name in one.counters
        ):
            return invalid
    has_conditions = any(slot.device.binding_conditions for slot in slots)
    return PoolView(
        pool,
        "",
        slots,
        counters,
        elsewhere,
        has_conditions,
        (
            pool[0],
            has_conditions,
            tuple((slot.content, slot.is_here) for slot in slots),
            tuple(sorted(counters.items())),
        ),
        frozenset(d.name for one in (*seen, *others) for d in one.spec.devices)
        if counters
        else frozenset(),
    )


def consumption(requested: Iterable[CounterConsumption]) -> Counters:
    """Return the use of each counter; a counter named twice adds up."""
    taken: Counters = {}
    for one in requested:
        for name, counter in one.counters.items():
            key = (one.counter_set, name)
            taken[key] = taken.get(key, 0) + amount(counter.value).nanos
    return taken


def ordered(views: Iterable[PoolView]) -> tuple[PoolView, ...]:
    """Return the pools of a node in the order of allocation."""
    return tuple(sorted(views, key=lambda view: (view.has_conditions, view.id)))


def _is_here(one: ResourceSlice, device: Device, node: Node | None) -> bool:
    if not one.spec.per_device_node_selection:
        return True
    return node is not None and node_matches(
        node, device.node_name, device.node_selector, all_nodes=device.all_nodes
    )
