"""The sentence of `explain` for a group that does not fit, compared with placing the group without
the named rules.

Groups of three sources with a rule for racks and requests of cpu and GPUs, on racks that are partly
in use. The default suite checks some, `make long` 200.
"""

from copy import deepcopy
from random import Random
from typing import Any

import pytest

from scheduler.explain.explain import explain
from scheduler.explain.why import grouped, grouptrials
from scheduler.simulate.simulate import simulate
from scheduler.testing import node
from tests.property import groupsituations
from tests.unit.plugins.groupobjects import group, members
from tests.unit.simulate.asking import default_setup, pod, snapshot

RACK = "topology.trellis.dev/rack"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
GPU = "nvidia.com/gpu"
PACK = {"rack": {"type": "pack", "hard": True}}
FEW, MANY = 8, 200


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch):
    """Remove the time limit of trials: it is for a terminal, and a slow machine is no fault."""
    monkeypatch.setattr(grouptrials, "ALL_TRIALS_S", 600.0)
    monkeypatch.setattr(grouped, "CONFLICT_S", 600.0)
    monkeypatch.setattr(grouptrials, "SOLVER_S", 60.0)


class RackSituation:
    """Racks with GPUs, pods that use some, and a group that may be too large for each rack."""

    def __init__(self, random: Random) -> None:
        self.nodes, self.busy = [], []
        self.source = random.choice(("PodGroup", "ConfigMap", "Kueue"))
        for rack in range(random.randint(2, 3)):
            for at in range(random.randint(1, 3)):
                name = f"n{rack}-{at}"
                labels = {RACK: f"r{rack}", "kubernetes.io/hostname": name}
                # Without it on every node there is no level of racks for a ConfigMap to name.
                if random.random() < 0.1 and self.source != "ConfigMap":
                    del labels[RACK]
                offered = {"cpu": str(random.randint(4, 12)), "memory": "64Gi", "pods": "110"}
                made = node(name, labels=labels, allocatable=offered | {GPU: "8"})
                self.nodes.append(made)
                if random.random() < 0.3:
                    used = {GPU: str(random.randint(1, 8))}
                    self.busy.append(pod(f"busy-{name}", requests=used, spec={"nodeName": name}))
        size = random.randint(2, 7)
        requests = {"cpu": str(random.randint(1, 5)), GPU: str(random.choice((1, 2, 4, 8, 16)))}
        self.members = members("g", size)
        for one in self.members:
            one["spec"]["containers"][0]["resources"]["requests"] = dict(requests)
        self.group = None
        self.more: list[dict[str, Any]] = []
        if self.source == "ConfigMap":
            self.group = group("g", size, PACK)
        elif self.source == "PodGroup":
            self.group = self._pod_group(size)
        else:
            self._kueue(size)

    def _pod_group(self, size):
        for one in self.members:
            one["metadata"]["labels"] = {}
            one["spec"]["schedulingGroup"] = {"podGroupName": "g"}
        spec = {
            "schedulingPolicy": {"gang": {"minCount": size}},
            "schedulingConstraints": {"topology": [{"key": RACK}]},
        }
        meta = {"name": "g", "namespace": "default"}
        return {
            "apiVersion": groupsituations.KUBERNETES,
            "kind": "PodGroup",
            "metadata": meta,
            "spec": spec,
        }

    def _kueue(self, size):
        levels = [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]
        self.more = [
            {
                "apiVersion": "kueue.x-k8s.io/v1beta1",
                "kind": "Topology",
                "metadata": {"name": "fabric"},
                "spec": {"levels": levels},
            }
        ]
        for one in self.members:
            one["metadata"]["labels"] = {
                "kueue.x-k8s.io/pod-group-name": "g",
                "kueue.x-k8s.io/queue-name": "q",
            }
            total = {"kueue.x-k8s.io/pod-group-total-count": str(size), REQUIRED: RACK}
            one["metadata"]["annotations"] = total

    @property
    def all(self):
        """Return all objects."""
        described = [] if self.group is None else [self.group]
        return [*self.nodes, *self.more, *self.busy, *described, *self.members]

    @property
    def fields(self):
        """Return all requirements of the group, as a conflict names them."""
        rule = {
            "PodGroup": "spec.schedulingConstraints.topology",
            "ConfigMap": "data.constraints.rack.hard",
            "Kueue": f"metadata.annotations[{REQUIRED}]",
        }
        return ["requests[cpu]", f"requests[{GPU}]", rule[self.source]]


def without(at, fields):
    """Return the situation without these requirements of the group."""
    at = deepcopy(at)
    for field in fields:
        for one in at.members:
            if field.startswith("requests["):
                requests = one["spec"]["containers"][0]["resources"]["requests"]
                requests.pop(field[len("requests[") : -1], None)
            elif field.startswith("metadata"):
                one["metadata"]["annotations"].pop(REQUIRED, None)
        if field.startswith("spec.schedulingConstraints"):
            del at.group["spec"]["schedulingConstraints"]
        elif field.startswith("data."):
            at.group["data"]["constraints"] = "{}"
    return at


def followed(at, changes):
    """Return the situation in which a suggestion was followed."""
    at = deepcopy(at)
    left = [one for one in changes if not groupsituations.applied(at, one)]
    for one in at.members:
        for change in left:
            if change.change == "set":
                name = change.field.removeprefix("metadata.annotations[").removesuffix("]")
                one["metadata"]["annotations"][name] = change.value
    return without(at, {one.field for one in left if one.change == "remove"})


def fits(at):
    """Return whether every member is placed."""
    return all(one.node for one in simulate(snapshot(*at.all), default_setup()).pods)


def check(seed):
    """Check one situation; return whether the group waits in it."""
    at = RackSituation(Random(f"sentence {seed}"))
    placed = simulate(snapshot(*at.all), default_setup())
    if all(one.node for one in placed.pods):
        return False
    got = explain(snapshot(*at.all), default_setup(), "default/g-0").explanation
    assert got.why is not None
    (condition,) = {one.message for one in placed.pods}
    assert got.message == condition
    assert got.why.sentence == f"default/g-0 waits: {condition}"

    named = [one.field for one in got.why.conflict]
    assert not fits(without(at, [one for one in at.fields if one not in named])), seed
    for one in named:
        kept = [other for other in named if other != one]
        rest = [field for field in at.fields if field not in kept]
        assert fits(without(at, rest)), (seed, named, one)
    requests = [one[len("requests[") : -1] for one in named if one.startswith("requests[")]
    assert any(one in condition for one in requests), (seed, condition, named)
    if len(requests) < len(named):
        assert "rack" in condition, (seed, condition, named)

    assert got.why.suggestions, (seed, condition)
    for each in got.why.suggestions:
        assert fits(followed(at, each.changes)), (seed, each)
        assert "without their request" not in each.text
    return True


def check_many(number, first):
    """Check this many situations in which the group waits."""
    waiting, seed = 0, first
    while waiting < number:
        waiting += check(seed)
        seed += 1


def test_the_sentence_names_rule_and_request_and_its_suggestions_help():
    """The invariant holds for a few random groups."""
    check_many(FEW, 0)


@pytest.mark.long
def test_the_sentence_names_rule_and_request_for_many_groups():
    """The invariant holds for many groups."""
    check_many(MANY, 1_000)
