"""Groups of absurd numbers, from every source: refused by name, with a short message, at low
cost.
"""

import gc
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from scheduler.groups.sources import composite, kueue
from scheduler.testing import pod
from tests.unit.engine.test_absurd_objects import SimulatedCluster

LONGEST_MESSAGE = 1024
# Calls of Python functions that reading an object, and refusing its pod, may take.
MOST_CALLS = 5_000
NUMBERS: dict[str, Any] = {
    "huge": 2**31,
    "wider": 10**18,
    "endless": 10**40,
    "negative": -1,
    "least": -(2**31),
    "text": "many",
    "fraction": 1.5,
}
MANY, SOME = 20_000, 2_000
LONG = "x" * 60_000


class Case(NamedTuple):
    """Objects that describe the group of a pod, the fields of the pod, and the text of the
    report.
    """

    objects: tuple[dict[str, Any], ...]
    pod: dict[str, Any]
    named: str


def group(kind: str, spec: dict[str, Any], **annotations: str) -> dict[str, Any]:
    """Return an object that describes the group g."""
    meta = {"name": "g", "namespace": "default", "uid": "g", "annotations": annotations}
    return {"kind": kind, "metadata": meta, "spec": spec}


def config_map(**data: str) -> dict[str, Any]:
    """Return a ConfigMap that describes the group g."""
    meta = {"name": "g", "namespace": "default", "uid": "g", "labels": {"sakkara.group": ""}}
    return {
        "kind": "GroupConfigMap",
        "metadata": meta,
        "data": {"name": "g", "size": "2", "constraints": "{}", **data},
    }


BY_MAP = {"labels": {"sakkara.group.name": "g"}}
BY_LABEL = {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}
BY_SPEC = {"spec": {"schedulingGroup": {"podGroupName": "g"}}}
BY_VOLCANO = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
BY_APPLICATION = {
    "labels": {"appgroup.diktyo.x-k8s.io": "g", "appgroup.diktyo.x-k8s.io.workload": "w"}
}
WORKLOADS = ("PodGroup.v1beta1", "PodGroup.v1alpha3", "PodGroup.v1alpha2")


def by_kueue(total: str, **more: str) -> dict[str, Any]:
    """Return the fields that put a pod into a group of Kueue."""
    return {"labels": {kueue.LABEL: "g"}, "annotations": {kueue.TOTAL: total, **more}}


def application(**entry: Any) -> dict[str, Any]:
    """Return an AppGroup that is a gang of one workload."""
    workload = {"kind": "Deployment", "apiVersion": "apps/v1", "namespace": "default"}
    workload |= {"name": "w", "selector": "w"}
    return group("AppGroup", {"gang": True, "workloads": [{"workload": workload, **entry}]})


def gang(least: Any) -> dict[str, Any]:
    """Return the spec of a PodGroup of Kubernetes with a minimum."""
    return {"schedulingPolicy": {"gang": {"minCount": least}}}


def numbers() -> Iterator[tuple[str, Case]]:
    """Yield a case for each source and number."""
    for name, number in NUMBERS.items():
        text = str(number)
        yield f"ConfigMap-{name}", Case((config_map(size=text),), BY_MAP, "data.size")
        yield f"PodGroup-{name}", Case((group("PodGroup", {"minMember": number}),), BY_LABEL, "g")
        for kind in WORKLOADS:
            yield f"{kind}-{name}", Case((group(kind, gang(number)),), BY_SPEC, "g")
        volcano = group("VolcanoPodGroup", {"minMember": number})
        yield f"Volcano-{name}", Case((volcano,), BY_VOLCANO, "g")
        task = group("VolcanoPodGroup", {"minMember": 1, "minTaskMember": {"t": number}})
        yield f"Volcano-task-{name}", Case((task,), BY_VOLCANO, "g")
        yield f"Kueue-{name}", Case((), by_kueue(text), kueue.TOTAL)
        yield f"AppGroup-{name}", Case((application(minMembers=number),), BY_APPLICATION, "g")
        rules = json.dumps({"node": {"max": number}})
        annotated = group("PodGroup", {"minMember": 2}, **{"sakkara.group/constraints": rules})
        yield f"rule-{name}", Case((annotated,), BY_LABEL, "node.max")
        classes = config_map(classes=json.dumps({"c": {"min": number}}))
        yield f"class-{name}", Case((classes,), BY_MAP, "data.classes.c")
        root = {"schedulingPolicy": {"gang": {"minGroupCount": number}}}
        leaf = group("PodGroup.v1alpha3", {**gang(2), "parentCompositePodGroupName": "g"})
        tree = Case((group(composite.KIND, root), leaf), BY_SPEC, "g")
        yield f"CompositePodGroup-{name}", tree


def large_cases() -> Iterator[tuple[str, Case]]:
    """Yield cases of thousands, of endless names and of depth."""
    longer = json.dumps({f"level{n}": {"max": 1} for n in range(MANY)})
    yield "longer", Case((config_map(constraints=longer),), BY_MAP, "data.constraints is longer")
    levels = json.dumps({f"level{n}": {"max": 1} for n in range(SOME)})
    yield "levels", Case((config_map(constraints=levels),), BY_MAP, "data.constraints")
    annotated = group("PodGroup", {"minMember": 2}, **{"sakkara.group/constraints": levels})
    yield "levels-annotated", Case((annotated,), BY_LABEL, "sakkara.group/constraints")
    named = json.dumps({LONG: {"max": 1}})
    yield "long-level", Case((config_map(size="1", constraints=named),), BY_MAP, "data.constraints")
    classes = json.dumps({f"c{n}": {"min": 1} for n in range(SOME)})
    yield "classes", Case((config_map(classes=classes),), BY_MAP, "data.classes")
    inner = json.dumps({"c": {"constraints": {f"l{n}": {} for n in range(SOME)}}})
    yield (
        "levels-of-class",
        Case((config_map(classes=inner),), BY_MAP, "data.classes.c.constraints"),
    )
    one = '{"c": {"min": 1}}'
    costs = json.dumps({f"l{n}": 1 for n in range(SOME)})
    yield "costs", Case((config_map(classes=one, costs=costs),), BY_MAP, "data.costs")
    between = json.dumps([{"rule": "apart", "classes": ["c", "c"], "level": "node"}] * 500)
    yield "between", Case((config_map(classes=one, between=between),), BY_MAP, "data.between")
    long_class = json.dumps({LONG: {"min": -1}})
    yield "long-class", Case((config_map(classes=long_class),), BY_MAP, "data.classes")
    deep = '{"a":' * 50_000 + "1" + "}" * 50_000
    yield "deep", Case((config_map(constraints=deep),), BY_MAP, "data.constraints")
    tasks = {"minMember": MANY, "minTaskMember": {f"t{n}": 1 for n in range(MANY)}}
    yield "tasks", Case((group("VolcanoPodGroup", tasks),), BY_VOLCANO, "spec.minMember")
    tasks = {"minMember": 10_000, "minTaskMember": {f"t{n}": 1 for n in range(10_000)}}
    yield "tasks-in-size", Case((group("VolcanoPodGroup", tasks),), BY_VOLCANO, "minTaskMember")
    workload = application()["spec"]["workloads"][0]["workload"]
    entries = [{"workload": {**workload, "selector": f"w{n}"}} for n in range(MANY)]
    large = group("AppGroup", {"gang": True, "workloads": entries})
    yield "workloads", Case((large,), BY_APPLICATION, "spec.workloads")
    equal_workloads = group(
        "AppGroup", {"gang": True, "workloads": [{"workload": workload}] * MANY}
    )
    yield "equal-workloads", Case((equal_workloads,), BY_APPLICATION, "spec.workloads")
    ties = application(dependencies=[{"workload": workload}] * MANY)
    yield "dependencies", Case((ties,), BY_APPLICATION, "spec.workloads")
    yield "long-kueue", Case((), by_kueue("9" * 60_000), kueue.TOTAL)
    sliced = by_kueue("2", **{kueue.SLICES: "rack", kueue.SLICE_SIZE: "9" * 60_000})
    yield "long-slice", Case((), sliced, kueue.SLICE_SIZE)
    resources = {f"example.com/{n}": "1" for n in range(MANY)}
    needy = group("PodGroup", {"minMember": 2, "minResources": resources})
    yield "needs", Case((needy,), BY_LABEL, "spec.minResources")
    huge = group("PodGroup", {"minMember": 2, "minResources": {"cpu": "much" + LONG}})
    yield "unreadable-need", Case((huge,), BY_LABEL, "spec.minResources")
    volcano = group("VolcanoPodGroup", {"minMember": 1, "queue": LONG})
    yield "long-queue", Case((volcano,), BY_VOLCANO, "spec.queue")


NO_GANG = (
    "AppGroup-text",
    "AppGroup-fraction",
    "AppGroup-huge",
    "AppGroup-wider",
    "AppGroup-endless",
)
CASES = dict((*numbers(), *large_cases()))


def member(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a pod of a group."""
    found = pod("member")
    found["metadata"] |= {"uid": "member", **{k: v for k, v in fields.items() if k != "spec"}}
    found["spec"] |= {"schedulerName": "trellis", **fields.get("spec", {})}
    return found


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Count the calls of Python functions inside the block without those of garbage collection."""
    calls: Counter[str] = Counter()

    def count(_frame: Any, event: str, _arg: Any) -> None:
        calls[event] += 1

    before = sys.getprofile()
    gc.disable()
    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(before)
        gc.enable()


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_by_name_and_for_next_to_nothing(name: str):
    """The member waits with a message that names the fault.

    Pods of no such group are placed in the same cycle.
    """
    cluster, case = SimulatedCluster(), CASES[name]
    cluster.engine.run(0.5, 1)
    with counting() as calls:
        for obj in case.objects:
            cluster.handle(obj)
        cluster.handle(member(case.pod))
        cluster.pod("good", requests={"cpu": "1"})
        bound = cluster.bound()

    # An application that cannot be read is no gang: its pods are placed as if there were none.
    assert ["good"] == bound or (name in NO_GANG and ["member", "good"] == sorted(bound)[::-1])
    queued = cluster.engine.queues.get("member")
    stated = [f"{one.kind} {one.key}: {one.message}" for one in cluster.faults]
    stated += [queued.reported[1]] if queued is not None and queued.reported is not None else []
    assert any(case.named in text for text in stated), stated
    assert max(map(len, stated)) <= LONGEST_MESSAGE
    assert calls["call"] <= MOST_CALLS


def in_tree(kind: str, name: str, parent: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a group that is in another."""
    found = group(kind, {**spec, "parentCompositePodGroupName": parent})
    found["metadata"] |= {"name": name, "uid": name}
    return found


def test_a_chain_of_groups_without_end_costs_what_its_first_links_do():
    """Each link names itself parent of all before it.

    The search does not follow them, and the condition of a pod at its end has the reason.
    """
    cluster = SimulatedCluster()
    composites = {"schedulingPolicy": {"gang": {"minGroupCount": 1}}}
    cluster.handle(in_tree("PodGroup.v1alpha3", "g", "c0", gang(1)))
    cluster.handle(member(BY_SPEC))
    costs = []
    for number in range(200):
        with counting() as calls:
            cluster.handle(in_tree(composite.KIND, f"c{number}", f"c{number + 1}", composites))
        costs.append(calls["call"])
    assert max(costs[100:]) <= MOST_CALLS
    assert max(costs[150:]) <= max(costs[20:50])
    assert [] == cluster.bound()
    queued = cluster.engine.queues.get("member")
    assert queued is not None
    assert queued.reported is not None
    assert "form a circle, or are too many" in queued.reported[1]


def test_a_tree_of_groups_without_end_is_refused_at_a_cost_that_stays(
    monkeypatch: pytest.MonkeyPatch,
):
    """Beyond the most that a tree may hold, the next group costs no more than the last that was
    allowed.
    """
    monkeypatch.setattr(composite, "MOST_GROUPS", 40)
    cluster = SimulatedCluster()
    cluster.handle(group(composite.KIND, {"schedulingPolicy": {"gang": {"minGroupCount": 40}}}))
    costs = []
    for number in range(160):
        with counting() as calls:
            cluster.handle(in_tree("PodGroup.v1alpha3", f"l{number}", "g", gang(2)))
            one = member({"spec": {"schedulingGroup": {"podGroupName": f"l{number}"}}})
            one["metadata"] |= {"name": f"m{number}", "uid": f"m{number}"}
            cluster.handle(one)
        costs.append(calls["call"])
    assert max(costs[100:]) <= max(costs[:40])
    cluster.engine.run(1.0, 1)
    cluster.engine.run(9.0, 1)
    reported = [queued.reported for queued in cluster.engine.queues]
    assert any(text is not None and composite.TOO_MANY in text[1] for text in reported)
