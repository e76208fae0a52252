"""`GroupSpec`: the specification of a group, in the one form that all sources are read into.

Made by scheduler.groups.sources, read by planning, status and eviction; pure.
"""

from collections.abc import Iterator, Mapping

import msgspec

from scheduler.base.errors import ObjectError
from scheduler.groups.description.classes import ClassesSpec
from scheduler.groups.description.rules import LevelConstraint
from scheduler.groups.sources.inputs import known

LARGEST_GROUP = 10_000


class TreeMembership(msgspec.Struct, frozen=True):
    """A group's statements about the tree of groups around it: `parent` is a key, empty at the
    root.

    All groups of a tree are made from one `workload`. `alone` names a setting that only a root or a
    group outside a tree may have.
    """

    parent: str = ""
    workload: str = ""
    is_basic: bool = False
    alone: str = ""


class GroupNode(msgspec.Struct, frozen=True):
    """A group in a tree of groups: one of pods, or a composite one of `groups`.

    It is placed as a whole or left out: at least `least` of its pods, or of its groups, all of them
    on nodes with one value of the label `key_label`, if it has one. `constraints` are its own rules
    by level; those of a root are its spec's.
    """

    key: str
    name: str
    least: int
    key_label: str = ""
    is_composite: bool = False
    groups: "tuple[GroupNode, ...]" = ()
    constraints: Mapping[str, LevelConstraint] = {}

    def leaves(self) -> "Iterator[GroupNode]":
        """Yield the groups of pods in it, itself if it is one."""
        if not self.is_composite:
            yield self
        for one in self.groups:
            yield from one.leaves()

    def every(self) -> "Iterator[GroupNode]":
        """Yield the group and all groups inside it; a group precedes those inside it."""
        yield self
        for one in self.groups:
            yield from one.every()


class TierRule(msgspec.Struct, frozen=True):
    """All members in one unit of a tier up to `highest`, or of the tier that has this `name`."""

    highest: int | None = None
    name: str = ""


class LabelRule(msgspec.Struct, frozen=True):
    """The levels of a tree, as node labels, that members are placed by: one unit of `required`, few
    of `preferred`.

    Units of `slices` take whole slices of `slice_size` members.
    """

    required: str = ""
    preferred: str = ""
    slices: str = ""
    slice_size: int = 0

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the node labels that the specification refers to."""
        return tuple(one for one in (self.required, self.preferred, self.slices) if one)


class GroupSpec(msgspec.Struct, frozen=True):
    """A group, from any source.

    At least `size` members are placed together. `is_minimum`: more members may follow. Those that
    exist are placed in the same step as far as they fit, later ones into the units already used.
    `priority` None leaves it to the pods. `counts_alone`: the group's priority replaces that of its
    pods, since admission has checked it; any other counts only up to theirs. `topology` names the
    tree that it is placed in, "" the profile's; `key_label` a node label instead, whose values are
    the units of a tree of its own. `is_ours`: its members may be evicted while it has never been
    complete. `is_evicted_together`: all members are evicted or none; with `may_shrink` those beyond
    the minimum may be evicted alone. `classes` are the rules of its roles. `by_network`: nodes
    differ only by the network costs between them. All members must name `priority_class`. `tiers`
    and `labels` are rules for levels that are resolved once the tree is known. With
    `has_outside_nodes`, nodes outside of the tree are units of their own. `tree` has the subgroups
    of a group of groups; `within` is the parent group.
    """

    namespace: str
    name: str
    size: int = 1
    priority: int | None = 0
    constraints: Mapping[str, LevelConstraint] = {}
    source: str = ""
    is_minimum: bool = False
    counts_alone: bool = False
    key_label: str = ""
    topology: str = ""
    may_evict: bool = True
    is_ours: bool = False
    is_evicted_together: bool = True
    may_shrink: bool = False
    has_classes: bool = False
    needs: Mapping[str, int] = {}
    hold_s: float = 0.0
    priority_class: str = ""
    tiers: TierRule | None = None
    has_outside_nodes: bool = False
    labels: LabelRule | None = None
    classes: ClassesSpec | None = None
    by_network: bool = False
    tree: GroupNode | None = None
    within: TreeMembership | None = None

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    def effective_priority(self, lowest: int) -> int:
        """Return the effective priority of members of which `lowest` is the lowest."""
        if self.priority is None:
            return lowest
        return self.priority if self.counts_alone else min(self.priority, lowest)


def check_levels(spec: GroupSpec, levels: tuple[str, ...], tree: str = "") -> None:
    """Check that every level with a rule is one of the topology's; ObjectError names the first.

    `tree` says where the topology comes from.
    """
    try:
        known(spec.constraints, levels, "data.constraints")
        known(() if spec.classes is None else spec.classes.levels, levels, "data.classes")
        for one in () if spec.tree is None else spec.tree.every():
            known(one.constraints, levels, f"the constraints of its group {one.name}")
    except ObjectError as error:
        origin = f" of the tree by {tree}" if tree else ""
        text = (
            f"{error.message}{origin}; levels come from a ConfigMap with the label "
            "sakkara.topology, or "
            "from node labels by the argument topologyLabels of ClusterTopologyPlacementGroup, "
            "for example [zone, rack]"
        )
        raise ObjectError(text) from error
