"""`TreeLifecycles`: lifecycles of a tree of groups, checked against invariants of nested groups.

A root has a group of pods `ta`, another `tb`, and a group of groups `mid` with `tc` and `td` in it;
an elastic group of lower and one of higher priority compete with them. The invariants are computed
from objects, and share no code with the plugin. Events of the tree are chosen in `treelifecycles`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from random import Random
from typing import Any, NamedTuple

from scheduler.engine.effects import Bind
from scheduler.objects.finished import FINISHED
from scheduler.objects.pod import Pod
from tests.faults.groupinvariants import COSCHEDULING, Lifecycles, described, group_of

LEAF, COMPOSITE = "PodGroup.v1alpha3", "CompositePodGroup"
ROOT, MID = "root", "mid"
PARENT = {"ta": ROOT, "tb": ROOT, MID: ROOT, "tc": MID, "td": MID}
LEAVES = ("ta", "tb", "tc", "td")
TREE = (ROOT, MID, *LEAVES)
BELOW = {ROOT: LEAVES, MID: ("tc", "td"), **{name: (name,) for name in LEAVES}}
TREE_KINDS = ("Node", "Pod", "PodGroup", LEAF, COMPOSITE)
RACK, HOST = "topology.trellis.dev/rack", "kubernetes.io/hostname"
RANK = {"gb": 1, "ge": 4}


class Plan(NamedTuple):
    """The fixed properties of a tree: its priority, and for each group whether it is evicted as a
    whole and its topology key.
    """

    rank: int
    whole: Mapping[str, bool]
    keys: Mapping[str, str]

    @classmethod
    def of(cls, random: Random) -> Plan:
        """Return random properties: groups in one that is evicted as a whole are so as well, and
        keys nest.
        """
        whole: dict[str, bool] = {}
        keys: dict[str, str] = {}
        for name in TREE:
            above = PARENT.get(name, "")
            whole[name] = bool(above and whole[above]) or random.random() < (0.15, 0.4)[bool(above)]
            keys[name] = random.choice(("", "", RACK) if name in (ROOT, MID) else ("", RACK, HOST))
        return cls(random.randrange(1, 5), whole, keys)


def groups_around(name: str) -> list[str]:
    """Return a group and the groups around it, the root first."""
    above = PARENT.get(name, "")
    return [*groups_around(above), name] if above else [name]


class TreeLifecycles(Lifecycles):
    """A rig that checks decisions about a tree of groups, and about the groups beside it."""

    groups = ("gb", "ge", *LEAVES)
    reporting = TREE
    kind_of: Mapping[str, str] = {
        "gb": COSCHEDULING,
        "ge": COSCHEDULING,
        ROOT: COMPOSITE,
        MID: COMPOSITE,
    } | dict.fromkeys(LEAVES, LEAF)

    def __init__(self, plan: Plan, *, is_hot: bool, differing: int) -> None:
        self.plan = plan
        # Whether a late write of a dead process, or an abandoned one, was carried out.
        self.is_strayed = False
        super().__init__(is_hot=is_hot, differing=differing, kinds=TREE_KINDS)

    def rank_of(self, group: str) -> int:
        """Return the priority of a group's members."""
        return RANK.get(group, self.plan.rank)

    # Objects

    def least(self, name: str, get: Callable[[str], Any]) -> int | None:
        """Return the minimum of pods, or of groups, in the object of a group of the tree.

        None without an object.
        """
        obj = get(name)
        if obj is None:
            return None
        gang = obj.spec.scheduling_policy.gang
        if name in LEAVES:
            stated = described(LEAF, obj)
            assert stated is not None
            return stated.least
        return 1 if gang is None else gang.min_group_count

    def on_server(self, name: str) -> Any:
        """Return the object of a group of the tree as the server has it."""
        return self.api.objects[self.kind_of[name]].get(f"default/{name}")

    def in_engine(self, name: str) -> Any:
        """Return the object of a group of the tree as the engine has it."""
        return self.engine.cluster.store.of(self.kind_of[name]).get(f"default/{name}")

    def is_in(self, name: str, counts: Mapping[str, int], get: Callable[[str], Any]) -> bool:
        """Return whether these numbers of pods satisfy a group."""
        least = self.least(name, get)
        if least is None:
            return False
        if name in LEAVES:
            return counts.get(name, 0) >= least
        return sum(self.is_in(one, counts, get) for one in PARENT if PARENT[one] == name) >= least

    # Decisions

    def _judge(self) -> None:
        """Check that the topmost group that is evicted as a whole, of a pod's group and those
        around it, loses all pods.
        """
        mine = {name: pods for name, pods in self._evictions.items() if name in LEAVES}
        for name in mine:
            del self._evictions[name]
        super()._judge()
        for name, pods in mine.items():
            if any(self.in_engine(one) is None for one in groups_around(name)):
                continue
            unit = next((one for one in groups_around(name) if self.plan.whole[one]), "")
            if not unit:
                continue
            kept = [pod.key for leaf in BELOW[unit] for pod in self._bound_pods(leaf)]
            assert not kept, f"{unit} loses {len(pods)} of {name} and keeps {kept}"
            self.seen[f"{'child' if unit in LEAVES else 'tree'} ended"] += 1

    def _check_start(self, effect: Bind) -> None:
        """Check that no group of the tree begins unless enough of its members have a node."""
        pod = self._placed(effect)
        own = group_of(pod)
        if own not in LEAVES:
            super()._check_start(effect)
            return
        if self.api.placed.get(effect.uid, ("", True))[1]:
            return  # it will be rejected
        if any(self.in_engine(one) is None for one in groups_around(own)):
            return  # no object states the minimum
        finished = Counter(map(group_of, self.engine.cluster.store.of(FINISHED).values()))
        counts = {name: len(self._on_nodes(name)) + finished[name] for name in LEAVES}
        for name in groups_around(own):
            if any(map(self._has_begun, BELOW[name])):
                continue
            assert self.is_in(name, counts, self.in_engine), f"{name} begins with {counts}"
            self.seen["begun"] += 1
        self._check_place(effect, own)

    def _has_begun(self, leaf: str) -> bool:
        """Return whether a pod of a group is bound, or was reported so to the engine; it may be
        deleted since.
        """
        if any(one.spec.node_name for one in (*self.members(leaf), *self._on_nodes(leaf))):
            return True
        reported = (
            one for one in self._on_nodes(leaf) if not self.engine.bindings.get(one.metadata.uid)
        )
        return any(reported)

    def _check_place(self, effect: Bind, own: str) -> None:
        """Check that all members of a group with a topology key are in one domain, as far as the
        engine can know.
        """
        if self.is_strayed:
            return
        for name in groups_around(own):
            key = self.plan.keys[name]
            if not key or self.in_engine(name) is None:
                continue
            there = (leaf for leaf in BELOW[name] if self._is_known_in(leaf, name))
            others = (one for leaf in there for one in self._on_nodes(leaf))
            uids = {one.metadata.uid for one in others}
            nodes = {one.node for one in self.engine.cluster.pods if one.pod.metadata.uid in uids}
            places = {self._place(node, key) for node in (*nodes, effect.node)} - {""}
            assert len(places) <= 1, f"{name} is in {places} by {key}"

    def _is_known_in(self, leaf: str, name: str) -> bool:
        """Return whether objects state that a group of pods is in another.

        A deleted object states nothing.
        """
        path = groups_around(leaf)
        return all(self.in_engine(one) is not None for one in path[path.index(name) :])

    def _place(self, node: str, key: str) -> str:
        """Return the value of a label of a node, or an empty text without the node."""
        found = self.api.nodes.get(node)
        return "" if found is None else found.metadata.labels.get(key, "")

    def arrive(self, place: int) -> None:
        """Carry out a delayed effect: no engine decided its result for the tree."""
        self.is_strayed = True
        super().arrive(place)

    # At rest

    def whole_tree(self) -> Iterable[str]:
        """Yield the groups of the tree that have their minimum."""
        counts = Counter(group_of(pod) for pod in self.api.pods.values() if pod.spec.node_name)
        return (name for name in TREE if self.is_in(name, counts, self.on_server))

    def could_begin(self) -> str:
        """Return which groups of pods of the tree could have more bound pods by now, or ''.

        Tries every choice of groups and places: each waiting pod requests one CPU. Free capacity
        with a nomination does not count.
        """
        members = {name: self.members(name) for name in LEAVES}
        stand = {
            name: [pod for pod in pods if pod.spec.node_name] for name, pods in members.items()
        }
        counts = {name: len(pods) for name, pods in stand.items()}
        free = self._free()
        for more in product((False, True), repeat=len(LEAVES)):
            chosen = [name for name, is_chosen in zip(LEAVES, more, strict=True) if is_chosen]
            wanted = {name: self._wanted(name, counts[name]) for name in chosen}
            missing = any(
                not number or len(members[name]) - counts[name] < number
                for name, number in wanted.items()
            )
            if not chosen or missing:
                continue
            after = {name: counts[name] + wanted.get(name, 0) for name in LEAVES}
            started = dict.fromkeys(one for name in chosen for one in groups_around(name))
            if all(
                any(counts[leaf] for leaf in BELOW[name]) or self.is_in(name, after, self.on_server)
                for name in started
            ) and any(_fits(wanted, allowed, free) for allowed in self._places(chosen, stand)):
                return " and ".join(f"{number} of {name}" for name, number in wanted.items())
        return ""

    def _wanted(self, name: str, bound: int) -> int:
        """Return how many more pods of a group must be placed at once: those that its minimum
        lacks, or one.
        """
        least = self.least(name, self.on_server)
        if least is None:
            return 0
        return max(1, least - bound)

    def _free(self) -> dict[str, int]:
        """Return the free CPUs of each schedulable node, without nominated ones."""
        used: Counter[str] = Counter()
        for pod in self.api.pods.values():
            if pod.spec.node_name:
                used[pod.spec.node_name] += _cpus(pod)
        for node in self.api.nodes:
            used[node] += sum(map(_cpus, self.engine.nominations.on(node).values()))
        return {
            name: max(0, int(node.status.allocatable["cpu"]) - used[name])
            for name, node in self.api.nodes.items()
            if not node.spec.unschedulable
        }

    def _places(
        self, chosen: list[str], stand: Mapping[str, list[Pod]]
    ) -> Iterator[dict[str, set[str]]]:
        """Yield the nodes that each of the chosen groups may use, for each choice of values of
        their keys.
        """
        choices: dict[str, list[str]] = {}
        for name in (one for one in TREE if self.plan.keys[one]):
            key = self.plan.keys[name]
            own = {
                self._place(pod.spec.node_name, key) for leaf in BELOW[name] for pod in stand[leaf]
            }
            if len(own) > 1:
                return  # it is in several places by a late write, and the tree is on hold
            if own or set(BELOW[name]) & set(chosen):
                choices[name] = sorted(own or {self._place(node, key) for node in self.api.nodes})
        for values in product(*choices.values()):
            at = dict(zip(choices, values, strict=True))
            yield {
                name: {
                    node
                    for node in self.api.nodes
                    if all(
                        self._place(node, self.plan.keys[one]) == at[one]
                        for one in groups_around(name)
                        if one in at
                    )
                }
                for name in chosen
            }


def _fits(
    wanted: Mapping[str, int], allowed: Mapping[str, set[str]], free: Mapping[str, int]
) -> bool:
    """Return whether this many pods of one CPU fit: any set of groups must find enough capacity on
    its allowed nodes (Hall).
    """
    names = list(wanted)
    for some in product((False, True), repeat=len(names)):
        those = [name for name, is_one in zip(names, some, strict=True) if is_one]
        nodes = set().union(*(allowed[name] for name in those))
        if sum(wanted[name] for name in those) > sum(free.get(node, 0) for node in nodes):
            return False
    return True


def _cpus(pod: Pod) -> int:
    return sum(int(one.resources.requests["cpu"]) for one in pod.spec.containers)
