"""The relocation problem: nodes, movable units, rules and one goal.

A *move* ends a running pod and starts its replacement on another node. A plan is *parallel-safe*:
every replacement fits while all sources still run. Therefore each subset of a plan, in each order,
respects capacity, and an aborted plan leaves no pod without a node.

Pods that cannot move do not occur here. Their requests are part of `Node.free`, their rules are
part of the destinations of the pods that can.
"""

from __future__ import annotations

from typing import NamedTuple

Amounts = tuple[int, ...]  # one number per resource of the problem
NODE_LEVEL = -1  # the level whose domains are single nodes


class Node(NamedTuple):
    """A node: the `free` amount of each resource; negative if the node is overcommitted.

    `pinned`: it runs a pod that cannot leave and that keeps the node occupied. `headroom`: load
    threshold minus load; negative if the node is above the threshold.
    """

    name: str
    free: Amounts
    pinned: bool = False
    headroom: int = 0


class Pod(NamedTuple):
    """A pod of a movable unit; `destinations` is an index into `Problem.destination_sets`.

    A destination accepts the pod beside all pods that run now, itself excluded. `tags` take part in
    rules.
    """

    name: str
    node: int
    request: Amounts
    destinations: int
    tags: frozenset[str] = frozenset()
    load: int = 0


class Unit(NamedTuple):
    """Pods that restart together: all of them move, or none. `cost` is the lost run time.

    With a `level`, all pods are placed inside one domain of that level.
    """

    name: str
    pods: tuple[int, ...]
    priority: int = 0
    cost: int = 0
    level: int | None = None


class Limit(NamedTuple):
    """At most `most` pods of these units move."""

    name: str
    units: frozenset[int]
    most: int


class Conflict(NamedTuple):
    """A pod tagged `first` and a pod tagged `second` never share a domain of `level`.

    It applies between arrivals, and between the pods of a claim and all pods after the moves.
    Conflicts of an arrival with running pods are part of its destinations.
    """

    level: int
    first: str
    second: str


class Anchor(NamedTuple):
    """A pod tagged `dependent` needs a pod tagged `provider` in its domain of `level`.

    Domains in `anchored` have a provider that cannot move. In the other domains one provider has to
    stay.
    """

    level: int
    dependent: str
    provider: str
    anchored: frozenset[int] = frozenset()


class Role(NamedTuple):
    """`number` identical waiting pods of a claim."""

    request: Amounts
    number: int
    destinations: int
    tags: frozenset[str] = frozenset()


class Claim(NamedTuple):
    """A waiting pod or group, `copies` times. `level`: each copy inside one domain of that level.

    With `apart`, the pods of one copy are on different nodes.
    """

    name: str
    roles: tuple[Role, ...]
    level: int | None = None
    copies: int = 1
    apart: bool = False


class Fit(NamedTuple):
    """The goal that all `claims` fit."""

    claims: tuple[Claim, ...]


class Free(NamedTuple):
    """`number` of these domains of `level` run no pod except those bound to their node."""

    number: int
    level: int
    domains: tuple[int, ...]


class Cool(NamedTuple):
    """No node is above its load threshold."""


class Repair(NamedTuple):
    """At least one pod of each clause leaves its node, and no node stays overcommitted."""

    clauses: tuple[frozenset[int], ...]


Goal = Fit | Free | Cool | Repair


class Problem(NamedTuple):
    """The whole problem. `levels[level][node]` is the domain of a node, -1 for none."""

    resources: tuple[str, ...]
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    units: tuple[Unit, ...]
    destination_sets: tuple[frozenset[int], ...]
    goal: Goal
    levels: tuple[tuple[int, ...], ...] = ()
    limits: tuple[Limit, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    anchors: tuple[Anchor, ...] = ()

    def domain(self, level: int, node: int) -> int:
        """Return the domain of a node; a node is its own domain at NODE_LEVEL."""
        return node if level == NODE_LEVEL else self.levels[level][node]

    def members(self, level: int) -> dict[int, list[int]]:
        """Return the nodes of each domain of a level."""
        found: dict[int, list[int]] = {}
        for node in range(len(self.nodes)):
            domain = self.domain(level, node)
            if domain >= 0:
                found.setdefault(domain, []).append(node)
        return found
