"""Resource slices by pool and node, and the pools of each node built from them.

A pool whose devices are each on one named node is built for these nodes alone; one with devices for
several nodes ("wide") for all nodes, with one shared object for equal views. Counters apply to
every node: faulty counters of a pool elsewhere are stored separately. Used by the catalog only.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from scheduler.objects.devices import ResourceSlice
from scheduler.objects.node import Node
from scheduler.plugins.dynamicresources.allocation.contents import Contents
from scheduler.plugins.dynamicresources.allocation.inuse import InUse
from scheduler.plugins.dynamicresources.allocation.pools import (
    PoolId,
    PoolView,
    has_compatibility_groups,
    is_relevant,
    ordered,
    places_of,
    reaches,
    view_of,
)

SLICE = "ResourceSlice"


class DevicePool(msgspec.Struct, eq=False):
    """All slices of one pool.

    `nodes` have its devices, `is_wide` states that other nodes may too.
    """

    id: PoolId
    slices: dict[str, ResourceSlice] = {}
    nodes: frozenset[str] = frozenset()
    is_wide: bool = False
    # Views of a wide pool, by relevant slices and the location of each device.
    views: dict[Any, PoolView | None] = {}


class NodePools:
    """The pools of one node; `layout` is equal for nodes with equivalent devices.

    `own` are the pools whose use concerns this node (or a few); the use of wide ones changes the
    catalog's epoch instead.
    """

    __slots__ = ("_own", "layout", "views")

    def __init__(self, views: tuple[PoolView, ...], own: tuple[PoolView, ...], layout: int) -> None:
        self.views = views
        self.layout = layout
        self._own = own

    def usage(self, in_use: InUse) -> Iterator[Any]:
        """Yield the use of the devices of the node's own pools."""
        for view in self._own:
            states = [in_use.state(slot.id) for slot in view.slots]
            yield tuple(states) if any(state is not None for state in states) else None
            if view.elsewhere:
                yield tuple(in_use.has(device) for device, _ in view.elsewhere)
            if view.counters:
                yield in_use.has_beyond(view.id, view.published)


class DeviceSlices:
    """Slices by pool, pools by node."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._pools: dict[PoolId, DevicePool] = {}
        self._by_node: dict[str, dict[PoolId, None]] = {}
        self._wide: dict[PoolId, None] = {}
        self._faulty: dict[PoolId, PoolView] = {}
        self._of: dict[str, NodePools] = {}
        self._layouts: dict[Any, int] = {}
        self._next_layout = 0

    @property
    def has_selectors(self) -> bool:
        """Return whether the pools of a node may depend on labels."""
        return bool(self._wide)

    def published(self) -> Counter[tuple[str, ...]]:
        """Return how many devices each driver's pools have by their newest generation:
        `(driver,)`.
        """
        found: Counter[tuple[str, ...]] = Counter()
        for (driver, _name), pool in self._pools.items():
            newest = max(one.spec.pool.generation for one in pool.slices.values())
            found[driver,] += sum(
                len(one.spec.devices)
                for one in pool.slices.values()
                if one.spec.pool.generation == newest
            )
        return found

    def replace(
        self, old: ResourceSlice | None, new: ResourceSlice | None
    ) -> frozenset[str] | None:
        """Apply a change of a slice; return the affected nodes, None for all of them.

        A slice with compatibility groups, an alpha feature, is skipped as by kube-scheduler 1.37:
        its pool stays incomplete.
        """
        touched: frozenset[str] | None = frozenset()
        for one, is_there in ((old, False), (new, True)):
            if one is not None and not has_compatibility_groups(one):
                nodes = self._changed(one, is_there=is_there)
                touched = None if nodes is None or touched is None else touched | nodes
        if touched is None:
            self._of.clear()
        else:
            for name in touched:
                self._of.pop(name, None)
        return touched

    def users(self, pool_id: PoolId) -> frozenset[str] | None:
        """Return the nodes that have devices of a pool; None if all may have some."""
        pool = self._pools.get(pool_id)
        if pool is None:
            return frozenset()
        return None if pool.is_wide else pool.nodes

    def forget(self, node: str) -> None:
        """Rebuild a node's pools at the next read."""
        self._of.pop(node, None)

    def renumber(self) -> None:
        """Rebuild all pools after contents were renumbered."""
        self._of.clear()
        self._layouts.clear()
        for pool in self._pools.values():
            pool.views.clear()

    def of(self, name: str, node: Node | None) -> NodePools:
        """Return the pools of a node."""
        found = self._of.get(name)
        if found is None:
            found = self._of[name] = self._gathered(name, node)
        return found

    def _gathered(self, name: str, node: Node | None) -> NodePools:
        if node is None:
            return NodePools((), (), -1)
        own_ids = self._by_node.get(name, {})
        own = [view for key in own_ids if (view := self._own(self._pools[key], node)) is not None]
        wide = [
            view for key in self._wide if (view := self._seen(self._pools[key], node)) is not None
        ]
        faulty = [
            self._by_counters(view, node)
            for key, view in self._faulty.items()
            if key not in own_ids
        ]
        views = ordered([*own, *wide, *faulty])
        # In the order of all pools, independent of their arrival.
        mine = tuple(view for view in views if view.id in own_ids)
        return NodePools(views, mine, self._number(tuple(view.layout for view in views)))

    def _by_counters(self, view: PoolView, node: Node) -> PoolView:
        """Return the view of a faulty pool for a node without known devices of it."""
        is_here = any(reaches(one, node) for one in self._pools[view.id].slices.values())
        return replace(view, is_here=is_here, layout=self._number((view.layout, is_here)))

    def _own(self, pool: DevicePool, node: Node) -> PoolView | None:
        relevant = [one for one in pool.slices.values() if is_relevant(one, node)]
        view = view_of(pool.id, relevant, pool.slices.values(), node, self._contents.content_of)
        # Equal layouts are stored once, as numbers.
        return None if view is None else replace(view, layout=self._number(view.layout))

    def _seen(self, pool: DevicePool, node: Node) -> PoolView | None:
        relevant = [one for one in pool.slices.values() if is_relevant(one, node)]
        if not relevant:
            return None
        is_here = any(reaches(one, node) for one in pool.slices.values())
        key = (is_here, *((one.metadata.name, places_of(one, node)) for one in relevant))
        if key in pool.views:
            return pool.views[key]
        view = view_of(pool.id, relevant, pool.slices.values(), node, self._contents.content_of)
        if view is not None:
            # Its devices are the same for all views of it: no other view is equivalent.
            view = replace(view, is_here=is_here, layout=self._new_layout())
        pool.views[key] = view
        return view

    def _number(self, layout: Any) -> int:
        found = self._layouts.get(layout)
        if found is None:
            found = self._layouts[layout] = self._new_layout()
        return found

    def _new_layout(self) -> int:
        self._next_layout += 1
        return self._next_layout

    def _changed(self, one: ResourceSlice, *, is_there: bool) -> frozenset[str] | None:
        key = (one.spec.driver, one.spec.pool.name)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = DevicePool(key)
        before, was_wide, fault_before = pool.nodes, pool.is_wide, self._fault(key)
        if is_there:
            pool.slices[one.metadata.name] = one
        else:
            pool.slices.pop(one.metadata.name, None)
        self._sort(pool)
        if was_wide or pool.is_wide or fault_before != self._fault(key):
            return None
        return before | pool.nodes

    def _fault(self, key: PoolId) -> str:
        view = self._faulty.get(key)
        return "" if view is None else view.fault

    def _sort(self, pool: DevicePool) -> None:
        """Determine which nodes use a pool now."""
        key, slices = pool.id, pool.slices.values()
        pool.views.clear()
        self._wide.pop(key, None)
        self._faulty.pop(key, None)
        nodes = frozenset(
            one.spec.node_name
            for one in slices
            if one.spec.node_name and not one.spec.shared_counters
        )
        pool.is_wide = any(not (one.spec.node_name or one.spec.shared_counters) for one in slices)
        mine = frozenset() if pool.is_wide else nodes
        for name in pool.nodes - mine:
            del self._by_node[name][key]
            if not self._by_node[name]:
                del self._by_node[name]
        for name in mine - pool.nodes:
            self._by_node.setdefault(name, {})[key] = None
        pool.nodes = mine
        if not slices:
            del self._pools[key]
        elif pool.is_wide:
            self._wide[key] = None
        elif counters := [one for one in slices if one.spec.shared_counters]:
            view = view_of(key, counters, slices, None, self._contents.content_of)
            if view is not None and view.fault:
                self._faulty[key] = replace(view, layout=self._number(view.layout))
