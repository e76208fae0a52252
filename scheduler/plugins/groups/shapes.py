"""Groups of groups: from a tree of groups and its members to the solver's parts, and back to who goes where.

Like groups (of the same needs, with as many members of each kind, none of which stands) are one shape; of
which of them a place is, is told after the answer. Reads, changes nothing.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import msgspec
import numpy as np

from scheduler.base.errors import ObjectError
from scheduler.framework.groups import GroupRoom
from scheduler.objects.pod import Pod
from scheduler.plugins.groups import mixing, quorum
from scheduler.plugins.groups.group import Node
from scheduler.plugins.groups.mixing import Alike, MixedSite
from scheduler.plugins.groups.nesting import NOWHERE
from scheduler.plugins.groups.placement import in_order
from scheduler.plugins.groups.sources import registry as sources
from scheduler.plugins.groups.topology import Topology
from scheduler.solver.parts import ROOT, Part, PlacedPart
from scheduler.state.podindex import Placed
from scheduler.state.resources import Amounts

# More kinds of members than this are too many patterns of a node to look through in time.
MOST_KINDS = 12


class Shape(msgspec.Struct, frozen=True):
    """Like groups, `count` of them in each one of the shape `parent`; their members by kind, `sizes` in each."""

    nodes: tuple[Node, ...]
    parent: int
    count: int
    kinds: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Return what they are called in texts."""
        first, others = self.nodes[0], len(self.nodes) - 1
        kind = "CompositePodGroup" if first.is_composite else "PodGroup"
        return f"{kind} {first.name}" + (f" (and {others} like it)" if others else "")


def members(
    root: Node, room: GroupRoom, requests: Mapping[str, Amounts], standing: Sequence[Placed]
) -> tuple[list[Alike], tuple[Shape, ...]]:
    """Return the members by kind, and the shapes that have them; ObjectError when they are too many."""
    maker = _Maker(mixing.kinds(room.fits_each(), requests), standing)
    maker.make(root)
    if len(maker.kinds) > MOST_KINDS:
        raise ObjectError(
            f"its members are of {len(maker.kinds)} kinds, by what they ask for and in what groups they are; "
            f"{MOST_KINDS} are the most that are placed exactly"
        )
    return maker.kinds, tuple(maker.shapes)


class _Maker:
    """Makes the shapes of one tree, each behind the one it is in."""

    def __init__(self, found: Sequence[Alike], standing: Sequence[Placed]) -> None:
        self._found = found
        self._standing = Counter(sources.group_of(one.pod) for one in standing)
        self._by_group: dict[str, dict[int, list[Pod]]] = {}
        for number, one in enumerate(found):
            for pod in one.pods:
                own = self._by_group.setdefault(sources.group_of(pod), {})
                own.setdefault(number, []).append(pod)
        self.kinds: list[Alike] = []
        self.shapes: list[Shape] = []

    def make(self, root: Node) -> None:
        """Make the shapes of a root and of all that is in it."""
        self._shape([root], ROOT, 1)

    def _shape(self, nodes: Sequence[Node], parent: int, count: int) -> None:
        """Make the shape of like groups, and those in it."""
        if not nodes[0].is_composite:
            numbers = sorted(self._by_group.get(nodes[0].key, {}))
            sizes = tuple(len(self._by_group[nodes[0].key][at]) for at in numbers)
            first = len(self.kinds)
            self.kinds += [self._kind(at, nodes) for at in numbers]
            kinds = tuple(range(first, len(self.kinds)))
            self.shapes.append(Shape(tuple(nodes), parent, count, kinds, sizes))
            return
        self.shapes.append(Shape(tuple(nodes), parent, count))
        own = len(self.shapes) - 1
        alike: dict[Hashable, list[Node]] = {}
        for node in nodes:
            for one in node.groups:
                if self._is_there(one):
                    alike.setdefault(self._sign(one), []).append(one)
        for those in alike.values():
            self._shape(those, own, len(those) // len(nodes))

    def _kind(self, number: int, nodes: Sequence[Node]) -> Alike:
        pods = tuple(pod for node in nodes for pod in self._by_group[node.key][number])
        one = self._found[number]
        return msgspec.structs.replace(
            one,
            pods=pods,
            slots=np.minimum(one.slots, len(pods)),
            evictable=np.minimum(one.evictable, len(pods)),
        )

    def _is_there(self, node: Node) -> bool:
        """Whether a group has any members, to be placed or standing."""
        return any(self._by_group.get(one.key) or self._standing[one.key] for one in node.leaves())

    def _sign(self, node: Node) -> Hashable:
        """Return what is equal for like groups; one of which members stand is like no other."""
        if any(self._standing[one.key] for one in node.leaves()):
            return node.key
        if not node.is_composite:
            own = self._by_group.get(node.key, {})
            sizes = tuple(sorted((number, len(pods)) for number, pods in own.items()))
            return node.least, node.key_label, sizes
        below = Counter(self._sign(one) for one in node.groups if self._is_there(one))
        return node.least, node.key_label, frozenset(below.items())


def needed(
    kinds: Sequence[Alike], shapes: Sequence[Shape], standing: Sequence[Placed]
) -> tuple[list[Alike], tuple[Shape, ...]]:
    """Return the members by kind that a tree lacks, and the shapes with them alone.

    Who is in a group that has its minimum with those that stand is beyond it, and so are all groups in such a one.
    """
    counts = Counter(sources.group_of(one.pod) for one in standing)
    lacking: list[Alike] = []
    found: list[Shape] = []
    has_all: list[bool] = []
    for shape in shapes:
        is_inside = shape.parent != ROOT and has_all[shape.parent]
        has_all.append(is_inside or quorum.is_in(shape.nodes[0], counts))
        own = () if has_all[-1] else shape.kinds
        numbers = tuple(range(len(lacking), len(lacking) + len(own)))
        lacking += [kinds[at] for at in own]
        sizes = shape.sizes if own else ()
        found.append(msgspec.structs.replace(shape, kinds=numbers, sizes=sizes))
    return lacking, tuple(found)


def with_parts(found: MixedSite, shapes: Sequence[Shape], standing: Sequence[Placed]) -> MixedSite:
    """Return a problem with these shapes as its parts; members are on no node without a label they need."""
    if not shapes:
        return found
    group = found.group
    at = {level.name: number for number, level in enumerate(group.levels)}
    held = _held(standing, found.names)
    parts = tuple(
        Part(
            shape.name,
            shape.parent,
            shape.count,
            at[shape.nodes[0].key_label] if shape.nodes[0].key_label else -1,
            shape.nodes[0].least,
            shape.kinds,
            shape.sizes,
            held.get(shape.nodes[0].key, ()),
        )
        for shape in shapes
    )
    kinds = list(group.kinds)
    for number, leaves in _nowhere(parts, group.paths).items():
        slots = kinds[number].slots
        open_ones = tuple(0 if leaf in leaves else slots[leaf] for leaf in range(len(slots)))
        kinds[number] = msgspec.structs.replace(kinds[number], slots=open_ones)
    asked = msgspec.structs.replace(group, kinds=tuple(kinds), parts=parts)
    return msgspec.structs.replace(found, group=asked)


def _held(standing: Sequence[Placed], names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return by group how many of its members stand on each leaf."""
    place = {name: leaf for leaf, name in enumerate(names)}
    found: dict[str, list[int]] = {}
    for one in standing:
        if (leaf := place.get(one.node)) is not None:
            counts = found.setdefault(sources.group_of(one.pod), [0] * len(names))
            counts[leaf] += 1
    return {key: tuple(counts) for key, counts in found.items()}


def _nowhere(parts: Sequence[Part], paths: Sequence[Sequence[str]]) -> dict[int, frozenset[int]]:
    """Return by kind the leaves where it cannot be: on nodes without a label that its groups name."""
    found: dict[int, frozenset[int]] = {}
    needed: list[set[int]] = []
    for one in parts:
        own = {one.level} if one.level >= 0 else set[int]()
        needed.append(own | (set() if one.parent == ROOT else needed[one.parent]))
        leaves = frozenset(
            leaf
            for leaf, path in enumerate(paths)
            if any(path[level] == NOWHERE for level in needed[-1])
        )
        if leaves:
            found |= dict.fromkeys(one.kinds, leaves)
    return found


def assign(
    shapes: Sequence[Shape],
    kinds: Sequence[Alike],
    names: Sequence[str],
    pieces: Sequence[PlacedPart],
) -> dict[str, str]:
    """Return the node of each member by uid: which of like groups have the places of an answer."""
    shape_of = {node.key: number for number, shape in enumerate(shapes) for node in shape.nodes}
    waiting: dict[tuple[str, int], list[Pod]] = {}
    for number, one in enumerate(kinds):
        for pod in in_order(one.pods):
            waiting.setdefault((sources.group_of(pod), number), []).append(pod)
    nodes: dict[str, str] = {}
    chosen: list[Node] = []
    taken: set[str] = set()
    for piece in pieces:
        among = shapes[0].nodes if piece.parent == ROOT else chosen[piece.parent].groups
        node = next(
            one for one in among if shape_of.get(one.key) == piece.part and one.key not in taken
        )
        taken.add(node.key)
        chosen.append(node)
        for kind, leaf, number in piece.pods:
            own = waiting[node.key, kind]
            nodes |= {pod.metadata.uid: names[leaf] for pod in own[:number]}
            del own[:number]
    return nodes


def torn(root: Node, tree: Topology, standing: Sequence[Placed]) -> str:
    """Return which group's members stand in several places by its topology key, or an empty text."""
    where: dict[str, set[tuple[str, ...]]] = {}
    paths = tree.paths
    for one in standing:
        path = paths.get(one.node, (NOWHERE,) * (len(tree.levels) - 1))
        where.setdefault(sources.group_of(one.pod), set()).add(tuple(path))
    for node in root.every():
        if not node.key_label:
            continue
        level = tree.levels.index(node.key_label)
        found = {path[level] for leaf in node.leaves() for path in where.get(leaf.key, ())}
        if len(found) > 1 or NOWHERE in found:
            places = ", ".join(sorted(one or "nodes without it" for one in found))
            return (
                f"bound members of its group {node.name} are in several places by "
                f"{node.key_label}: {places}"
            )
    return ""
