"""Groups of groups: turn a tree of groups and its members into the solver's parts, and back.

Identical groups form one shape: they have the same requirements, the same number of members of each
role, and no bound member. `assign` chooses which of them takes a place of the answer. A group with
level rules besides its own unit forms a shape by itself, and so do the groups around it, because
such rules concern its own members. Read-only.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from scheduler.base.errors import ObjectError
from scheduler.framework.groups import PlanningContext
from scheduler.groups.description import quorum
from scheduler.groups.description.nesting import NOWHERE, keys_of, places
from scheduler.groups.description.ownrules import OwnRules
from scheduler.groups.description.spec import GroupNode
from scheduler.groups.planning.roles.roles import RoleMembers, by_role, fits_each
from scheduler.groups.planning.roles.rolesproblem import RolesProblem
from scheduler.groups.problem.classes import ClassRule, PodClass
from scheduler.groups.problem.parts import ROOT, LikeParts, PlacedPart
from scheduler.groups.sources import registry as sources
from scheduler.groups.topology.placement import in_order
from scheduler.groups.topology.tree import Topology
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed
from scheduler.state.resources import Amounts

# With more roles the patterns of a node are too many to enumerate within the time limit.
MOST_ROLES = 12


class GroupShape(msgspec.Struct, frozen=True):
    """Identical groups: `count` of them in each group of the shape `parent`, an index.

    `sizes` has the members of one group by its `roles`; `own` are its rules on levels.
    """

    nodes: tuple[GroupNode, ...]
    parent: int
    count: int
    own: OwnRules
    roles: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Return the name that messages use for the groups."""
        first, others = self.nodes[0], len(self.nodes) - 1
        kind = "CompositePodGroup" if first.is_composite else "PodGroup"
        return f"{kind} {first.name}" + (f" (and {others} like it)" if others else "")


def members(
    root: GroupNode,
    own: Mapping[str, OwnRules],
    context: PlanningContext,
    requests: Mapping[str, Amounts],
    bound: Sequence[Placed],
) -> tuple[list[RoleMembers], tuple[GroupShape, ...]]:
    """Return the members by role, and the shapes that they belong to.

    `own` has the level rules of each group by key. Raises ObjectError for more than MOST_ROLES
    roles.
    """
    maker = _Maker(by_role(fits_each(context, context.members), requests), bound, own)
    maker.make(root)
    if len(maker.roles) > MOST_ROLES:
        alone = "; each group with rules of its own counts alone" if maker.has_rules(root) else ""
        raise ObjectError(
            f"its members are of {len(maker.roles)} roles, by what they ask for and in "
            "what groups they are; "
            f"{MOST_ROLES} are the most that are placed exactly{alone}"
        )
    return maker.roles, tuple(maker.shapes)


class _Maker:
    """Builds the shapes of one tree; the shape of a subgroup comes after that of its group."""

    def __init__(
        self, found: Sequence[RoleMembers], bound: Sequence[Placed], own: Mapping[str, OwnRules]
    ) -> None:
        self._found = found
        self._own = own
        self._bound = Counter(sources.group_of(one.pod) for one in bound)
        self._by_group: dict[str, dict[int, list[Pod]]] = {}
        for number, one in enumerate(found):
            for pod in one.pods:
                its = self._by_group.setdefault(sources.group_of(pod), {})
                its.setdefault(number, []).append(pod)
        self.roles: list[RoleMembers] = []
        self.shapes: list[GroupShape] = []

    def make(self, root: GroupNode) -> None:
        """Build the shapes of a root and of all groups inside it."""
        self._shape([root], ROOT, 1)

    def _shape(self, nodes: Sequence[GroupNode], parent: int, count: int) -> None:
        """Build the shape of identical groups, and the shapes inside it."""
        if not nodes[0].is_composite:
            numbers = sorted(self._by_group.get(nodes[0].key, {}))
            sizes = tuple(len(self._by_group[nodes[0].key][at]) for at in numbers)
            first = len(self.roles)
            self.roles += [self._role(at, nodes) for at in numbers]
            roles = tuple(range(first, len(self.roles)))
            says = self._own_rules(nodes[0])
            self.shapes.append(GroupShape(tuple(nodes), parent, count, says, roles, sizes))
            return
        self.shapes.append(GroupShape(tuple(nodes), parent, count, self._own_rules(nodes[0])))
        own = len(self.shapes) - 1
        by_sign: dict[Hashable, list[GroupNode]] = {}
        for node in nodes:
            for one in node.groups:
                if self._is_there(one):
                    by_sign.setdefault(self._sign(one), []).append(one)
        for those in by_sign.values():
            self._shape(those, own, len(those) // len(nodes))

    def has_rules(self, node: GroupNode) -> bool:
        """Return whether a group, or one inside it, has level rules besides its own unit."""
        return any(self._own_rules(one).rules for one in node.every())

    def _own_rules(self, node: GroupNode) -> OwnRules:
        """Return the level rules of a group; only its own unit if none of its members is to be
        placed.
        """
        is_still = not any(self._by_group.get(one.key) for one in node.leaves())
        return OwnRules(node.key_label) if is_still else self._own[node.key]

    def _role(self, number: int, nodes: Sequence[GroupNode]) -> RoleMembers:
        pods = tuple(pod for node in nodes for pod in self._by_group[node.key][number])
        one = self._found[number]
        return msgspec.structs.replace(
            one,
            pods=pods,
            slots=np.minimum(one.slots, len(pods)),
            evictable=np.minimum(one.evictable, len(pods)),
        )

    def _is_there(self, node: GroupNode) -> bool:
        """Return whether a group has any members, to be placed or bound."""
        return any(self._by_group.get(one.key) or self._bound[one.key] for one in node.leaves())

    def _sign(self, node: GroupNode) -> Hashable:
        """Return a key that identical groups share; a group with rules or bound members has its own
        key.
        """
        if any(self._bound[one.key] for one in node.leaves()) or self.has_rules(node):
            return node.key
        says = self._own_rules(node)
        if not node.is_composite:
            own = self._by_group.get(node.key, {})
            sizes = tuple(sorted((number, len(pods)) for number, pods in own.items()))
            return node.least, says.level, says.apart, sizes
        below = Counter(self._sign(one) for one in node.groups if self._is_there(one))
        return node.least, says.level, frozenset(below.items())


def needed(
    roles: Sequence[RoleMembers], shapes: Sequence[GroupShape], bound: Sequence[Placed]
) -> tuple[list[RoleMembers], tuple[GroupShape, ...]]:
    """Return the roles whose members the minimum of the tree needs, and the shapes with only these.

    The members of a group whose bound members reach its minimum are surplus, and so are the members
    of all groups inside it.
    """
    counts = Counter(sources.group_of(one.pod) for one in bound)
    lacking: list[RoleMembers] = []
    found: list[GroupShape] = []
    has_all: list[bool] = []
    for shape in shapes:
        is_inside = shape.parent != ROOT and has_all[shape.parent]
        has_all.append(is_inside or quorum.is_in(shape.nodes[0], counts))
        own = () if has_all[-1] else shape.roles
        numbers = tuple(range(len(lacking), len(lacking) + len(own)))
        lacking += [roles[at] for at in own]
        sizes = shape.sizes if own else ()
        found.append(msgspec.structs.replace(shape, roles=numbers, sizes=sizes))
    return lacking, tuple(found)


def with_parts(
    found: RolesProblem, shapes: Sequence[GroupShape], bound: Sequence[Placed]
) -> RolesProblem:
    """Return the problem with these shapes as its parts.

    A member takes no slot on a node that lacks a label which its group needs.
    """
    if not shapes:
        return found
    group = found.group
    at = {level.name: number for number, level in enumerate(group.levels)}
    fixed = _fixed(bound, found.names)
    parts = tuple(
        LikeParts(
            shape.name,
            shape.parent,
            shape.count,
            at[shape.own.level] if shape.own.level else -1,
            max(1, shape.nodes[0].least),  # 0 if finished members cover the minimum
            shape.roles,
            shape.sizes,
            fixed.get(shape.nodes[0].key, ()),
            at[shape.own.apart] if shape.own.apart else -1,
        )
        for shape in shapes
    )
    classes = tuple(_classes(shapes, parts, at))
    roles = list(group.roles)
    keys = {at[key] for key in keys_of(shapes[0].nodes[0])}
    for number, leaves in _nowhere(parts, classes, keys, group.paths).items():
        slots = roles[number].slots
        open_ones = tuple(0 if leaf in leaves else slots[leaf] for leaf in range(len(slots)))
        roles[number] = msgspec.structs.replace(roles[number], slots=open_ones)
    instance = msgspec.structs.replace(group, roles=tuple(roles), parts=parts, classes=classes)
    return msgspec.structs.replace(found, group=instance)


def _classes(
    shapes: Sequence[GroupShape], parts: Sequence[LikeParts], at: Mapping[str, int]
) -> Iterator[PodClass]:
    """Yield a class for each group with level rules; its pods are those of all groups inside it."""
    inside = [[number] for number in range(len(parts))]
    for number in range(len(parts) - 1, 0, -1):
        inside[parts[number].parent] += inside[number]
    for number, shape in enumerate(shapes):
        if shape.own.rules:
            own = [parts[each] for each in sorted(inside[number])]
            fixed = [one.fixed for one in own if one.fixed]
            yield PodClass(
                shape.name,
                tuple(role for one in own for role in one.roles),
                rules=tuple(ClassRule(at[level], rule) for level, rule in shape.own.rules.items()),
                fixed=tuple(map(sum, zip(*fixed, strict=True))),
                part=number,
            )


def _fixed(bound: Sequence[Placed], names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return by group key the number of its bound members on each leaf."""
    place = {name: leaf for leaf, name in enumerate(names)}
    found: dict[str, list[int]] = {}
    for one in bound:
        if (leaf := place.get(one.node)) is not None:
            counts = found.setdefault(sources.group_of(one.pod), [0] * len(names))
            counts[leaf] += 1
    return {key: tuple(counts) for key, counts in found.items()}


def _nowhere(
    parts: Sequence[LikeParts],
    classes: Sequence[PodClass],
    keys: Collection[int],
    paths: Sequence[Sequence[str]],
) -> dict[int, frozenset[int]]:
    """Return by role the leaves that it cannot use: nodes without a label that its groups need.

    `keys` are the indices of the levels that stand for labels which a node may lack.
    """
    found: dict[int, frozenset[int]] = {}
    needed: list[set[int]] = []
    for number, one in enumerate(parts):
        ruled = {own.level for each in classes if each.part == number for own in each.rules}
        own = {level for level in (one.level, one.apart, *ruled) if level in keys}
        needed.append(own | (set() if one.parent == ROOT else needed[one.parent]))
        leaves = frozenset(
            leaf
            for leaf, path in enumerate(paths)
            if any(path[level] == NOWHERE for level in needed[-1])
        )
        if leaves:
            found |= dict.fromkeys(one.roles, leaves)
    return found


def assign(
    shapes: Sequence[GroupShape],
    roles: Sequence[RoleMembers],
    names: Sequence[str],
    pieces: Sequence[PlacedPart],
) -> dict[str, str]:
    """Return the node of each member by uid; groups of one shape take its places in order."""
    shape_of = {node.key: number for number, shape in enumerate(shapes) for node in shape.nodes}
    waiting: dict[tuple[str, int], list[Pod]] = {}
    for number, one in enumerate(roles):
        for pod in in_order(one.pods):
            waiting.setdefault((sources.group_of(pod), number), []).append(pod)
    nodes: dict[str, str] = {}
    chosen: list[GroupNode] = []
    taken: set[str] = set()
    for piece in pieces:
        among = shapes[0].nodes if piece.parent == ROOT else chosen[piece.parent].groups
        node = next(
            one for one in among if shape_of.get(one.key) == piece.part and one.key not in taken
        )
        taken.add(node.key)
        chosen.append(node)
        for role, leaf, number in piece.pods:
            own = waiting[node.key, role]
            nodes |= {pod.metadata.uid: names[leaf] for pod in own[:number]}
            del own[:number]
    return nodes


def conflicting_domains(root: GroupNode, tree: Topology, bound: Sequence[Placed]) -> str:
    """Return a message on the first group with bound members in several domains of its topology
    key.

    Return '' if there is none. A node without the label counts as a further domain.
    """
    where: dict[str, set[tuple[str, ...]]] = {}
    paths = tree.paths
    for one in bound:
        path = paths.get(one.node, (NOWHERE,) * (len(tree.levels) - 1))
        where.setdefault(sources.group_of(one.pod), set()).add(tuple(path))
    for node in root.every():
        if not node.key_label:
            continue
        level = tree.levels.index(node.key_label)
        found = {path[level] for leaf in node.leaves() for path in where.get(leaf.key, ())}
        if len(found) > 1 or NOWHERE in found:
            return (
                f"bound members of its group {node.name} are in several places by "
                f"{node.key_label}: {places(found)}"
            )
    return ""
