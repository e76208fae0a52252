"""Any input of a simulation yields an answer: the engine's own, or one clear error."""

import json
import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.attempt.cycle import Ties
from scheduler.engine.effects import Answer, Bind, SetStatus, Watched
from scheduler.engine.engine import Engine
from scheduler.engine.settings import EngineSettings
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.plain import read_node, read_object, read_pod
from scheduler.simulate.batch import Batch
from scheduler.simulate.setups import Setups
from scheduler.simulate.simulate import simulate
from scheduler.simulate.stage import AnswerOptions
from scheduler.testing import node, pod
from tests.unit.simulate.asking import default_setup, snapshot

NOW = 1_767_225_600.0
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SETUPS = Setups(Registry(IN_TREE), default_setup())

# Small clusters in which pods compete.

APPS = st.sampled_from(["a", "b", "c"])
CPU = st.sampled_from(["100m", "1", "1500m", "2", "5"])


@st.composite
def nodes(draw):
    count = draw(st.integers(0, 5))
    return [
        node(
            f"n{index}",
            cpu=draw(CPU),
            labels={"kubernetes.io/hostname": f"n{index}", "zone": draw(APPS)},
            taints=[{"key": "k", "effect": "NoSchedule"}] if draw(st.integers(0, 4)) == 0 else [],
        )
        for index in range(count)
    ]


@st.composite
def pods(draw):
    found = []
    for index in range(draw(st.integers(0, 8))):
        app = draw(APPS)
        spec = {"schedulerName": "trellis", "priority": draw(st.integers(0, 2))}
        selector = {"labelSelector": {"matchLabels": {"app": draw(APPS)}}}
        term = {"topologyKey": draw(st.sampled_from(["zone", "kubernetes.io/hostname"]))} | selector
        rule = draw(st.sampled_from(["", "podAffinity", "podAntiAffinity", "spread"]))
        if rule == "spread":
            how = draw(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]))
            spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": how} | selector
            spec["topologySpreadConstraints"] = [spread]
        elif rule:
            spec["affinity"] = {rule: {REQUIRED: [term]}}
        node_name = draw(st.sampled_from(["", "", "n0", "n1", "gone"]))
        one = pod(
            f"p{index}",
            labels={"app": app},
            requests={"cpu": draw(CPU)},
            node_name=node_name,
            spec=spec | {"nodeName": node_name},
        )
        # No pod may be evicted: only placements are compared.
        one["spec"]["preemptionPolicy"] = "Never"
        found.append(one)
    return found


class Daemon:
    """The engine driven as the daemon does it: effects in batches, answers late, the watch last."""

    def __init__(self, objects, cycles):
        registry = Registry(IN_TREE)
        profiles = default_setup().loaded.profiles
        self.engine = Engine(profiles, registry, settings=EngineSettings(ties=Ties.NAME))
        self.cycles = cycles
        self.now = NOW
        self.pods = {}
        for raw in objects:
            kind, obj = read_object(raw)
            obj = read_node(raw) if kind.kind == "Node" else obj
            if kind.kind == "Pod":
                obj = read_pod(raw)
                self.pods[obj.metadata.uid] = obj
            self.engine.handle(Watched(kind.kind, "ADDED", obj), self.now)

    def run(self):
        """Run until no pod is active; return the node of each pod."""
        for _ in range(100):
            effects = self.engine.run(self.now, self.cycles)
            for effect in effects:
                if isinstance(effect, Bind):
                    self.engine.handle(Answer(effect.id, 201), self.now)
            for effect in effects:
                if isinstance(effect, Bind):
                    self._watch(effect.uid, effect.node)
                elif isinstance(effect, SetStatus):
                    self._watch(effect.uid, self.pods[effect.uid].spec.node_name)
            if not effects and not self.engine.has_work():
                break
        return {one.metadata.name: one.spec.node_name for one in self.pods.values()}

    def _watch(self, uid, node_name):
        known = self.pods[uid]
        spec = msgspec.structs.replace(known.spec, node_name=node_name)
        self.pods[uid] = msgspec.structs.replace(known, spec=spec)
        self.engine.handle(Watched("Pod", "MODIFIED", self.pods[uid]), self.now)


@settings(max_examples=40)
@given(nodes(), pods(), st.integers(1, 5))
def test_a_simulation_is_what_the_engine_does(some_nodes, some_pods, cycles):
    """The simulation places the same pods on the same nodes as a driver with batches and late
    answers.
    """
    objects = [*some_nodes, *some_pods]
    simulation = simulate(snapshot(*objects), default_setup(), AnswerOptions(now=NOW))
    wanted = Daemon(objects, cycles).run()

    assert {one.name: one.node or "" for one in simulation.pods} == {
        raw["metadata"]["name"]: wanted[raw["metadata"]["name"]]
        for raw in some_pods
        if not raw["spec"]["nodeName"]
    }


# Specs in which any field may have any value.

ODD = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["-1", "1e9999", "9" * 80, "1Ei", "0.0000001n", 10**400, -(2**63), [], {}])
)  # fmt: skip


def rarely(usual, odd):
    """Return `odd` one time in fifty: otherwise objects would hardly ever be accepted as a
    whole.
    """
    return st.integers(0, 49).flatmap(lambda number: usual if number else odd)


WORDS = st.sampled_from(["a", "zone", "kubernetes.io/hostname", "x/y/z", "", "-", "A" * 70, "ü"])
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "example.com/gpu", "hugepages-2Mi", "pods", "x", ""]),
    rarely(
        st.sampled_from(["1", "500m", "1e5", 3, 0.5, "9" * 30, "7Ei", "1e9999"]),
        st.sampled_from(["-2", "1Zi", ""]) | ODD,
    ),
    max_size=3,
)
REQUIREMENTS = st.lists(
    st.fixed_dictionaries(
        {"key": WORDS},
        optional={
            "operator": st.sampled_from(
                ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "?", ""]
            ),
            "values": st.lists(WORDS | st.sampled_from(["5", "99999999999999999999"]), max_size=2),
        },
    ),
    max_size=2,
)
SELECTORS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": st.dictionaries(WORDS, WORDS, max_size=2),
        "matchExpressions": REQUIREMENTS,
    },
)
POD_TERMS = st.fixed_dictionaries(
    {},
    optional={
        "topologyKey": WORDS,
        "labelSelector": SELECTORS,
        "namespaceSelector": SELECTORS,
        "namespaces": st.lists(WORDS, max_size=2),
        "matchLabelKeys": st.lists(WORDS, max_size=2),
        "mismatchLabelKeys": st.lists(WORDS, max_size=2),
    },
)
NODE_TERMS = st.fixed_dictionaries(
    {}, optional={"matchExpressions": REQUIREMENTS, "matchFields": REQUIREMENTS}
)
NUMBERS = rarely(st.integers(1, 100), st.sampled_from([-3, 0, 200, 2**31, 2**63, 10**30]))
POD_RULES = st.fixed_dictionaries(
    {},
    optional={
        REQUIRED: st.lists(POD_TERMS, max_size=2),
        PREFERRED: st.lists(
            st.fixed_dictionaries({"weight": NUMBERS, "podAffinityTerm": POD_TERMS}), max_size=2
        ),
    },
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "name": WORDS,
                    "image": WORDS,
                    "restartPolicy": WORDS,
                    "resources": st.fixed_dictionaries(
                        {}, optional={"requests": AMOUNTS, "limits": AMOUNTS}
                    ),
                    "ports": st.lists(
                        st.fixed_dictionaries({}, optional={"hostPort": NUMBERS, "hostIP": WORDS}),
                        max_size=2,
                    ),
                },
            ),
            max_size=2,
        ),
        "priority": NUMBERS,
        "priorityClassName": st.just("system-node-critical"),
        "preemptionPolicy": st.sampled_from(["Never", "PreemptLowerPriority", "?"]),
        "overhead": AMOUNTS,
        "nodeSelector": st.dictionaries(WORDS, WORDS, max_size=2),
        "affinity": st.fixed_dictionaries(
            {},
            optional={
                "nodeAffinity": st.fixed_dictionaries(
                    {},
                    optional={
                        REQUIRED: st.fixed_dictionaries(
                            {"nodeSelectorTerms": st.lists(NODE_TERMS, max_size=2)}
                        ),
                        PREFERRED: st.lists(
                            st.fixed_dictionaries({"weight": NUMBERS, "preference": NODE_TERMS}),
                            max_size=2,
                        ),
                    },
                ),
                "podAffinity": POD_RULES,
                "podAntiAffinity": POD_RULES,
            },
        ),
        "tolerations": st.lists(
            st.fixed_dictionaries(
                {}, optional={"key": WORDS, "operator": WORDS, "value": WORDS, "effect": WORDS}
            ),
            max_size=2,
        ),
        "topologySpreadConstraints": st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "maxSkew": NUMBERS,
                    "minDomains": NUMBERS,
                    "topologyKey": WORDS,
                    "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway", "?"]),
                    "labelSelector": SELECTORS,
                    "nodeTaintsPolicy": st.sampled_from(["Honor", "Ignore", "?"]),
                    "matchLabelKeys": st.lists(WORDS, max_size=2),
                },
            ),
            max_size=2,
        ),
        "volumes": st.lists(
            st.fixed_dictionaries(
                {"name": WORDS},
                optional={
                    "persistentVolumeClaim": st.fixed_dictionaries({"claimName": WORDS}),
                    "ephemeral": st.just({}),
                    "gcePersistentDisk": st.fixed_dictionaries({"pdName": WORDS}),
                },
            ),
            max_size=2,
        ),
        "schedulingGates": st.lists(st.fixed_dictionaries({"name": WORDS}), max_size=1),
        "resourceClaims": st.lists(
            st.fixed_dictionaries({"name": WORDS}, optional={"resourceClaimName": WORDS}),
            max_size=1,
        ),
        "resources": st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS}),
        "hostNetwork": st.booleans(),
    },
)


@st.composite
def odd_cases(draw):
    """Draw a small cluster and pods with odd specs; sometimes a value has another type."""
    taints = st.fixed_dictionaries({"key": WORDS}, optional={"value": WORDS, "effect": WORDS})
    objects = [
        node(
            f"n{index}",
            allocatable=draw(AMOUNTS),
            labels=draw(st.dictionaries(WORDS, WORDS, max_size=2)),
            taints=draw(st.lists(taints, max_size=1)),
        )
        for index in range(draw(st.integers(0, 2)))
    ]
    for index in range(draw(st.integers(1, 3))):
        one = pod(f"p{index}", node_name=draw(st.sampled_from(["", "", "n0", "gone"])))
        one["spec"] |= {"schedulerName": "trellis"} | draw(SPECS)
        one["metadata"]["labels"] = draw(st.dictionaries(WORDS, WORDS, max_size=2))
        objects.append(one)
    if draw(st.integers(0, 3)) == 0:
        _spoil(draw, objects)
    return objects


def _spoil(draw, objects):
    """Put an odd value at a random place."""
    place = draw(st.sampled_from(objects))
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or draw(st.integers(0, 2)) == 0:
            place[key] = draw(ODD)
            return
        place = place[key]


def _answered(objects):
    batch = Batch(SETUPS, AnswerOptions(details=True), lambda _name: "")
    started_s = time.process_time()
    line = json.dumps({"id": 1, "objects": objects}).encode()
    answer = json.loads(batch.answer(line).decode())

    assert time.process_time() - started_s < 10
    error = answer.get("error")
    if error is not None:
        assert error["code"] in ("InvalidObject", "InvalidCase"), error
        assert error["message"]
        return
    for one in answer["simulation"]["pods"]:
        # A fault of ours would show as an error of a plugin.
        assert one["result"] in ("Scheduled", "Unschedulable", "Gated", "Error")
        assert one["node"] or one["message"], one
        assert "Error" not in one["message"], one["message"]


@given(odd_cases())
def test_any_pod_spec_ends_in_an_answer(objects):
    """A pod is placed, pending with a reason, or rejected by name: no crash, no hang."""
    _answered(objects)


@pytest.mark.long
@settings(max_examples=30_000)
@given(odd_cases())
def test_very_many_pod_specs_end_in_an_answer(objects):
    """The invariant holds in a longer search."""
    _answered(objects)
