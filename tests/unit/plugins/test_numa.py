"""NodeResourceTopologyMatch: invariants, odd objects, arguments, and results beyond the vectors."""

import copy
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.framework.status import Code
from scheduler.objects.plain import read_object, read_pod
from scheduler.objects.reports.numa import NodeResourceTopology
from scheduler.objects.reports.numaplacement import decode, encode, zones_of
from scheduler.objects.reports.podfingerprint import fingerprint, is_fingerprint, mark_of
from scheduler.plugins.numa import NodeResourceTopologyMatch
from scheduler.state.change import Change
from scheduler.testing import check_plugin, evaluate
from scheduler.testing.evaluate import look
from scheduler.testing.scene import Scene

NAME = "NodeResourceTopologyMatch"
CACHE = {"cacheResyncPeriodSeconds": 5}
STRATEGIES = ["LeastAllocated", "MostAllocated", "BalancedAllocation", "LeastNUMANodes"]
GPU = "example.com/gpu"


def node(name, **allocatable):
    offers = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: "8", **allocatable}
    return {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": offers}}


def zone(number, *, costs=None, **available):
    resources = [
        {"name": name.replace("_", "-"), "capacity": text, "allocatable": text, "available": text}
        for name, text in available.items()
    ]
    named = [{"name": f"node-{n}", "value": v} for n, v in (costs or {}).items()]
    return {"name": f"node-{number}", "type": "Node", "costs": named, "resources": resources}


def report(name, *zones, policy="single-numa-node", scope="pod", **attributes):
    both = {"topologyManagerPolicy": policy, "topologyManagerScope": scope, **attributes}
    return {
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [{"name": key, "value": value} for key, value in both.items()],
        "zones": list(zones),
    }


def pod(name="p", *containers, init=(), guaranteed=True, **spec):
    def container(number, requests):
        resources = {"requests": requests, "limits": requests if guaranteed else {}}
        return {"name": f"c{number}", "resources": resources}

    return {
        "kind": "Pod",
        "metadata": {"namespace": "default", "name": name},
        "spec": {
            "schedulerName": "trellis",
            "containers": [container(n, one) for n, one in enumerate(containers)],
            "initContainers": [container(f"i{n}", one) for n, one in enumerate(init)],
            **spec,
        },
    }


def test_the_words_of_the_design_text_are_understood():
    """`SingleNumaNode`, zones without `available`: aligned container by container, by
    allocatable.
    """
    zones = [zone(number, cpu="8", memory="32Gi") for number in range(2)]
    for one in zones:
        for resource in one["resources"]:
            del resource["available"]
    old = {
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n"},
        "topologyPolicies": ["SingleNumaNode"],
        "zones": zones,
    }

    def asked(*cpus):
        found = [{"cpu": cpu, "memory": "1Gi"} for cpu in cpus]
        got = evaluate(NAME, nodes=[node("n")], objects=[old], pod=pod("p", *found))
        return got.filter["n"]

    assert asked("8").is_success
    assert asked("6", "6").is_success
    assert ("cannot align container",) == asked("9").reasons


def wants(cpu, memory="1Gi", **more):
    return {"cpu": str(cpu), "memory": memory, **more}


TWO = report("two", zone(0, cpu="4", memory="8Gi"), zone(1, cpu="8", memory="8Gi"))
SAMPLES = {
    "nodes": [node("two"), node("apart"), node("loose"), node("bare")],
    "objects": [
        TWO,
        report("apart", zone(3, cpu="2", memory="1Gi"), zone(7, cpu="6", memory="4Gi"),
               scope="container"),
        report("loose", zone(0, cpu="1", memory="1Gi"), policy="restricted"),
    ],
    "pods": [
        pod("numa-small", wants(1)),
        pod("numa-large", wants(7)),
        pod("numa-pair", wants(3), wants(5)),
        pod("numa-shared", {"cpu": "1"}, guaranteed=False),
        pod("numa-device", {GPU: "1"}, guaranteed=False),
    ],
    "existing_pods": [
        pod("there", wants(2), nodeName="two"),
        pod("foreign", wants(2), nodeName="apart", schedulerName="other"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    "args",
    [
        CACHE,
        {"discardReservedNodes": True},
        {
            "policies": ["single-numa-node", "restricted"],
            "alignment": "Exact",
            "scoringStrategy": {"type": "LeastNUMANodes"},
        },
    ],
)
def test_the_invariants_hold(args):
    """Whatever the arguments, the plugin keeps the invariants of all plugins."""
    check_plugin(NodeResourceTopologyMatch, args=args, **SAMPLES)


# Odd objects.

texts = st.sampled_from(
    ["", "0", "1", "4", "-3", "500m", "1.5Gi", "1e400", "9" * 30, "many", "64Gi", "NaN"]
)
names = st.sampled_from(
    ["node-0", "node-1", "node-01", "node-+1", "node--1", "node-63", "node-64", "node-75", "node-x",
     "node-" + "9" * 30, "zone", ""]
)  # fmt: skip
resources = st.fixed_dictionaries(
    {"name": st.sampled_from(["cpu", "memory", GPU, "hugepages-2Mi", ""])},
    optional={"allocatable": texts, "available": texts},
)
zones = st.fixed_dictionaries(
    {"name": names, "type": st.sampled_from(["Node", "Node", "Node", "Package"])},
    optional={
        "resources": st.lists(resources, max_size=4),
        "costs": st.lists(
            st.fixed_dictionaries({"name": names, "value": st.integers(-(2**63), 2**63 - 1)}),
            max_size=4,
        ),
        "attributes": st.just(
            [{"name": "topology.node.k8s.io/numaplacement-vector", "value": "f~\u00e9"}]
        ),
    },
)
attributes = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(
                ["topologyManagerPolicy", "topologyManagerScope", "topologyManagerMaxNUMANodes",
                 "nodeTopologyPodsFingerprint", "topology.node.k8s.io/numaplacement-metadata"]
            ),
            "value": st.sampled_from(
                ["single-numa-node", "restricted", "pod", "container", "1", "2", "1024", "-5",
                 "9" * 5000, "\u0663", "pfp0v001", "pfp0v001ef46db3751d8e999",
                 "npv0v001::ve=leb89::cc=1::nn=2::bn=0", "npv0v001::ve=::cc"]
            ),
        }
    ),
    max_size=4,
)  # fmt: skip
reports = st.fixed_dictionaries(
    {},
    optional={
        "zones": st.lists(zones, max_size=5),
        "attributes": attributes,
        "topologyPolicies": st.lists(
            st.sampled_from(["SingleNUMANodePodLevel", "SingleNUMANodeContainerLevel", "None"]),
            max_size=2,
        ),
    },
)


@settings(max_examples=60, deadline=None)
@given(
    first=reports,
    second=reports,
    strategy=st.sampled_from(STRATEGIES),
    period=st.sampled_from([0, 5]),
    exact=st.booleans(),
)
def test_no_report_breaks_anything(first, second, strategy, period, exact):
    """Any report gives verdicts and scores from 0 to 100, also when it replaces another."""
    args = {
        "scoringStrategy": {"type": strategy},
        "cacheResyncPeriodSeconds": period,
        "policies": ["single-numa-node", "restricted"],
        "alignment": "Exact" if exact else "Greedy",
        "preemptionMode": "Enabled",
    }
    scene = Scene(NAME, args)
    objects = [{"kind": "NodeResourceTopology", "metadata": {"name": "n"}, **first}]
    scene.fill([node("n")], [pod("there", wants(2), nodeName="n")], (), objects)
    pods = [
        pod("a", wants(1)),
        pod("b", wants(2, GPU="1"), wants(1), init=[wants(3)]),
        pod("c", {GPU: "1"}, guaranteed=False),
        pod("d", {}, resources={"requests": wants(1), "limits": wants(1)}),
        pod("e", {}, {}, resources={"requests": {"cpu": "1"}}),
    ]
    for raw in (first, second):
        obj = read_object({"kind": "NodeResourceTopology", "metadata": {"name": "n"}, **raw})[1]
        scene.follow(scene.cluster.put_object("NodeResourceTopology", obj))
        for one in pods:
            found = look(scene, scene.cycle(read_pod(one)))
            assert found.filter["n"].code in (Code.SUCCESS, Code.UNSCHEDULABLE)
            assert all(0 <= score <= 100 for score in found.raw.values())
        victims = list(scene.cluster.pods)
        look(scene, scene.cycle(read_pod(pods[0])), nodes=scene.nodes().hypothetical(victims))
    gone = scene.cluster.store.of("NodeResourceTopology")["n"]
    scene.follow(scene.cluster.drop_object("NodeResourceTopology", gone))
    assert look(scene, scene.cycle(read_pod(pods[0]))).filter["n"].is_success


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_gaps_and_high_numbers_have_results(strategy):
    """Zones 5 and 63 are as good as 0 and 1, and 64 does not count."""
    args = {"scoringStrategy": {"type": strategy}}
    plain = report("n", zone(0, cpu="4", memory="4Gi"), zone(1, cpu="8", memory="8Gi"))
    gaps = report(
        "n", zone(5, cpu="4", memory="4Gi"), zone(63, cpu="8", memory="8Gi"), zone(64, cpu="99")
    )
    found = [
        evaluate(NAME, args=args, nodes=[node("n")], objects=[one], pod=pod("p", wants(2))).raw["n"]
        for one in (plain, gaps)
    ]

    assert found[0] == found[1] > 0


def test_one_resource_is_balanced():
    """A single share does not vary: the score is the maximum."""
    got = evaluate(
        NAME,
        args={"scoringStrategy": {"type": "BalancedAllocation"}},
        nodes=[node("n")],
        objects=[report("n", zone(0, cpu="4", memory="8Gi"), scope="container")],
        pod=pod("p", {"cpu": "1"}, wants(1)) | {"status": {"qosClass": "Guaranteed"}},
    )

    assert 0 <= got.raw["n"] <= 100


# Reserving.


def situation(scene):
    columns = scene.plugin._reserving.columns
    return {name: np.copy(value) for name, value in columns.columns("kept")}


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_assuming_and_forgetting_leaves_no_trace(seed):
    """A rollback restores the former state."""
    source = Random(seed)
    scene = Scene(NAME, CACHE)
    scene.fill([node("two")], [pod("there", wants(2), nodeName="two")], (), [TWO])
    before = situation(scene)
    placed = []
    for number in range(source.randint(1, 8)):
        one = read_pod(pod(f"p{number}", wants(source.randint(0, 9))))
        scene.follow(scene.cluster.assume(one, "two"))
        placed.append(one.metadata.uid)
    source.shuffle(placed)
    for uid in placed:
        scene.follow(scene.cluster.forget(uid))
    after = situation(scene)

    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def assumed(scene, name, cpu):
    return scene.follow(scene.cluster.assume(read_pod(pod(name, wants(cpu))), "two"))


def fits(scene, cpu):
    return look(scene, scene.cycle(read_pod(pod("new", wants(cpu))))).filter["two"].is_success


def published(scene, *pods, policy="single-numa-node", **amounts):
    """Write a report that accounts for these pods."""
    text = fingerprint(mark_of("default", name) for name in pods)
    raw = report(
        "two",
        zone(0, memory="8Gi", cpu=amounts.get("zero", "4")),
        zone(1, memory="8Gi", cpu=amounts.get("one", "8")),
        policy=policy,
        nodeTopologyPodsFingerprint=text,
    )
    scene.follow(scene.cluster.put_object("NodeResourceTopology", read_object(raw)[1]))


def test_a_report_of_the_past_frees_only_what_it_saw():
    """A pod younger than the report stays deducted, although the report arrives later."""
    scene = Scene(NAME, CACHE)
    scene.fill([node("two")], (), (), [])
    published(scene)
    assumed(scene, "a", 3)
    assumed(scene, "b", 4)
    assert not fits(scene, 2)  # 7 of 8 are taken from the larger zone

    published(scene, "a", zero="1")
    assert fits(scene, 4)
    assert not fits(scene, 5)  # b is still taken from both
    published(scene, "a", "b", zero="1", one="4")
    assert fits(scene, 4)
    assert not fits(scene, 5)


def test_a_report_without_a_matching_set_waits():
    """The report contains unknown pods: the former deductions stay in force."""
    scene = Scene(NAME, CACHE)
    scene.fill([node("two")], (), (), [])
    published(scene)
    assumed(scene, "a", 3)
    published(scene, "a", "unheard-of", zero="0", one="0")
    assert fits(scene, 5)

    unknown = pod("unheard-of", wants(8), nodeName="two", schedulerName="other")
    scene.follow(scene.cluster.put_pod(read_pod(unknown)))
    assert not fits(scene, 1)


def test_changed_settings_are_taken_at_once():
    """A kubelet that aligns differently since its restart is accepted without a match."""
    scene = Scene(NAME, CACHE)
    scene.fill([node("two")], (), (), [])
    published(scene)
    assumed(scene, "a", 8)
    assert not fits(scene, 4)

    published(scene, "unheard-of", policy="best-effort")
    assert fits(scene, 4)


def test_two_profiles_share_what_is_reserved():
    """A process has one cache: pods of another profile are known and count."""
    scene = Scene(NAME, CACHE)
    scene.fill([node("two")], (), (), [TWO])
    one: Any = scene.plugin
    other = NodeResourceTopologyMatch(one.args, scene.handle)
    assumed(scene, "a", 8)

    assert other._reserving is one._reserving
    assert not fits(scene, 4)


# Reasons, hints, arguments.


@pytest.mark.parametrize("args", [{}, CACHE])
def test_without_reports_nothing_is_done(args):
    """Without any report the filter does not run, and all nodes are equal."""
    got = evaluate(NAME, args=args, nodes=[node("a"), node("b")], pod=pod("p", wants(2)))

    assert Code.SKIP is got.pre_filter.code
    assert {"a": 0, "b": 0} == got.raw


def test_pods_that_need_no_zone_are_left_alone():
    """A pod without requests fits any node, stale or not."""
    scene = Scene(NAME, CACHE)
    scene.fill([node("two")], (), (), [])
    published(scene)
    unknown = pod("foreign", wants(8), nodeName="two", schedulerName="other")
    scene.follow(scene.cluster.put_pod(read_pod(unknown)))
    cycle = scene.cycle(read_pod(pod("p", {})))

    assert Code.SKIP is look(scene, cycle).pre_filter.code
    assert {"two": 100} == look(scene, cycle).raw


def test_exact_says_when_another_split_exists():
    """The kubelet may put the small container into the zone that the large one needs, and never
    moves it.
    """
    objects = [
        report("n", zone(0, cpu="4", memory="8Gi"), zone(1, cpu="1", memory="8Gi"),
               scope="container")
    ]  # fmt: skip
    tried = {
        alignment: evaluate(
            NAME,
            args={"alignment": alignment},
            nodes=[node("n")],
            objects=objects,
            pod=pod("p", wants(1), wants(4)),
        ).filter["n"]
        for alignment in ("Greedy", "Exact")
    }

    assert ("cannot align container",) == tried["Greedy"].reasons
    assert "would fit in other zones" in tried["Exact"].message


def test_sidecars_keep_what_they_take():
    """The amounts of a sidecar add to those of later containers; those of an init container
    do not.
    """
    objects = [report("n", zone(0, cpu="4", memory="8Gi"), scope="container")]

    def verdict(**more):
        raw = pod("p", wants(3), init=[wants(2)])
        raw["spec"]["initContainers"][0].update(more)
        return evaluate(NAME, nodes=[node("n")], objects=objects, pod=raw).filter["n"]

    assert verdict().is_success
    assert ("cannot align container",) == verdict(restartPolicy="Always").reasons


def test_a_report_without_changes_wakes_no_pod():
    """Agents write every few seconds; pods are retried when a value differs."""
    scene = Scene(NAME)
    topology = read_object(TWO)[1]
    kind = frozenset(("NodeResourceTopology",))
    again = msgspec.structs.replace(
        topology, metadata=msgspec.structs.replace(topology.metadata, resource_version="2")
    )
    fuller = read_object(report("two", zone(0, cpu="1", memory="8Gi")))[1]
    waiting = read_pod(pod("p", wants(1)))

    def wakes(new):
        change = Change("NodeResourceTopology", "update", kind, "", topology, new)
        return scene.plugin.hint(change, waiting)

    assert not wakes(again)
    assert wakes(fuller)


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ({"scoringStrategy": {"type": "Best"}}, "scoringStrategy.type"),
        ({"scoringStrategy": {}}, "scoringStrategy.type"),
        ({"preemptionMode": "Maybe"}, "preemptionMode"),
        ({"alignment": "Sloppy"}, "alignment"),
        ({"policies": ["best-effort"]}, "policies[0]"),
        ({"cache": {"resyncMethod": "Never"}}, "cache.resyncMethod"),
        ({"cache": {"foreignPodsDetect": "Some"}}, "cache.foreignPodsDetect"),
        ({"cache": {"informerMode": "Own"}}, "cache.informerMode"),
        ({"cache": {"resyncScope": "Nothing"}}, "cache.resyncScope"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(args, field):
    """The field is named, and no value is guessed."""
    read = msgspec.convert(args, NodeResourceTopologyMatch.args_type)

    assert [field] == [name for name, _ in read.validate()]


# Texts of agents.


def test_the_published_examples_of_fingerprints():
    """The fingerprints of no pod and of one pod equal those in the library's documentation."""
    assert "pfp0v0019131e707ccadb65c" == fingerprint([mark_of("default", "pod-a")])
    assert "pfp0v001ef46db3751d8e999" == fingerprint([])


@given(pods=st.lists(st.tuples(st.text(max_size=40), st.text(max_size=70)), max_size=40))
def test_the_order_of_pods_does_not_matter(pods):
    """A fingerprint is that of a set, in any order of iteration."""
    marks = [mark_of(namespace, name) for namespace, name in pods]
    backwards = fingerprint(reversed(marks))

    assert fingerprint(marks) == backwards == fingerprint(sorted(marks))
    assert is_fingerprint(backwards)


@given(
    zone_of=st.dictionaries(
        st.tuples(st.just("ns"), st.text("abc", max_size=6), st.text("xyz", max_size=3)),
        st.integers(0, 3),
        max_size=120,
    )
)
def test_placements_come_back_as_they_were_written(zone_of):
    """A reader with the container list gets the zone of each container; with one missing,
    nothing.
    """
    metadata, vectors = encode(zone_of, 4)
    containers = list(zone_of)

    assert zone_of == zones_of(metadata, vectors, containers)
    if containers:
        assert zones_of(metadata, vectors, containers[1:]) is None


@given(text=st.text(max_size=30))
def test_no_vector_breaks_the_reader(text):
    """A malformed text is read as no placement."""
    found = decode(text)

    assert found is None or found == sorted(found)


def test_objects_share_equal_texts_and_costs():
    """Nodes of one hardware type share one object for equal distances, which saves memory."""
    raw = [report(n, zone(0, costs={0: 10}, cpu="4")) for n in ("a", "b")]
    first, second = (
        msgspec.json.decode(msgspec.json.encode(copy.deepcopy(one)), type=NodeResourceTopology)
        for one in raw
    )

    assert first.zones[0].costs is second.zones[0].costs
    assert first.zones[0].resources[0].available is second.zones[0].resources[0].available


@pytest.mark.parametrize("args", [{}, CACHE])
def test_pods_that_share_are_asked_about_where_a_zone_may_lack_something(args):
    """If every zone lists the shared resources, the plugin searches no node for pods without a
    zone; one report without them changes that.
    """
    scene = Scene(NAME, args)
    scene.fill([node("two"), node("odd")], (), (), [TWO])
    shared = read_pod(pod("p", {"cpu": "1", "memory": "1Gi"}, guaranteed=False))

    shape = scene.cycle(shared).shape  # counted here: the kept state stays

    def found():
        assert scene.cycle(shared).shape is shape
        return look(scene, scene.cycle(shared))

    assert Code.SKIP is found().pre_filter.code
    without = read_object(report("odd", zone(0, cpu="4")))[1]
    scene.follow(scene.cluster.put_object("NodeResourceTopology", without))
    assert (True, False) == tuple(found().filter[name].is_success for name in ("two", "odd"))
    scene.follow(scene.cluster.drop_object("NodeResourceTopology", without))
    assert Code.SKIP is found().pre_filter.code


def test_pods_that_share_are_asked_about_while_a_foreign_pod_is_not_accounted_for():
    """An unreported foreign pod withdraws the cached result; after its deletion the result holds
    again.
    """
    scene = Scene(NAME, CACHE)
    scene.fill([node("two"), node("odd")], (), (), [TWO])
    shared = read_pod(pod("p", {"cpu": "1", "memory": "1Gi"}, guaranteed=False))
    shape = scene.cycle(shared).shape  # counted here: the kept state stays
    foreign = pod("unheard-of", wants(1), nodeName="two", schedulerName="other")
    unknown = read_pod(foreign | {"status": {"phase": "Pending"}})
    for _ in range(2):
        assert Code.SKIP is look(scene, scene.cycle(shared)).pre_filter.code
        scene.follow(scene.cluster.put_pod(unknown))
        found = look(scene, scene.cycle(shared))
        assert (False, True) == tuple(found.filter[name].is_success for name in ("two", "odd"))
        scene.follow(scene.cluster.drop_pod(unknown.metadata.uid))

    assert scene.cycle(shared).shape is shape


def test_free_amounts_are_exact_however_many_pods_were_deferred():
    """Amounts of pods without requests to a zone are added later, and none of them is lost."""
    scene = Scene(NAME, CACHE)
    names = [f"n{number}" for number in range(300)]
    objects = [report(name, zone(0, cpu="4", memory="8Gi"), zone(1, cpu="8")) for name in names]
    scene.fill([node(name) for name in names], (), (), objects)
    for number, name in enumerate(names):
        one = read_pod(pod(f"p{number}", wants(1 + number % 5), guaranteed=False))
        scene.follow(scene.cluster.assume(one, name))
    plugin: Any = scene.plugin
    columns = plugin._reserving.columns
    rows = [scene.cluster.table.rows[name] for name in names]

    left = columns.free("cpu")[rows][:, :2].tolist()
    assert left == [[max(3 - n % 5, 0) * 1000, (7 - n % 5) * 1000] for n in range(300)]
    assert {-1} == set(columns.free("memory")[rows][:, 1].tolist())
