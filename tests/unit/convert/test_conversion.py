"""Documents of older texts become today's, and every change is named."""

import json
from pathlib import Path

import pytest
import yaml

from scheduler.base.clock import ManualClock
from scheduler.base.errors import InputError
from scheduler.config import load
from scheduler.convert.conversion import convert, convert_all
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.sandbox.start import new_store
from scheduler.simulate.batch import Batch
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions
from scheduler.testing import node
from tests.unit.simulate.asking import pod

OLDER = Path(__file__).parents[3] / "docs" / "examples" / "network" / "older"


def documents(name):
    """Return the documents of an example file."""
    return list(yaml.safe_load_all((OLDER / name).read_text()))


def converted(document):
    return convert(document, "here")


def test_the_early_designs_documents_become_todays():
    """spec.Pods with both forms of dependencies, an illegal name, the first group."""
    app, network = (converted(one) for one in documents("early.yaml"))

    assert "appgroup.diktyo.x-k8s.io/v1alpha1" == app.object["apiVersion"]
    assert "a1" == app.object["metadata"]["name"]
    needs = {
        one["workload"]["selector"]: [
            n["workload"]["selector"] for n in one.get("dependencies", ())
        ]
        for one in app.object["spec"]["workloads"]
    }
    assert {"P1": ["P2"], "P2": ["P3"], "P3": []} == needs
    assert any("podAffinity" in change for change in app.changes)
    assert "networktopology.diktyo.x-k8s.io/v1alpha1" == network.object["apiVersion"]
    assert "Dijkstra" == network.object["spec"]["topologyAlgorithm"]


def test_the_later_designs_keys_become_todays():
    """The keys are costList, originCosts and costs, selectors in place of a name, and plugin
    names.
    """
    app, network, config = (converted(one) for one in documents("later.yaml"))

    assert {"P1", "P2", "P3"} == {
        one["workload"]["selector"] for one in app.object["spec"]["workloads"]
    }
    spec = network.object["spec"]
    assert "netperf-metrics" == spec["configmapName"]
    level = spec["weights"][0]["topologyList"][0]
    assert 20 == level["originList"][0]["costList"][0]["networkCost"]
    enabled = config.object["profiles"][0]["plugins"]["multiPoint"]["enabled"]
    assert ["NetworkOverhead", "NodeResourcesBalancedAllocation"] == [
        one["name"] for one in enabled
    ]


def test_what_comes_out_is_accepted_and_comes_back_as_it_is():
    """Our definitions accept the objects, our configuration the files; a second conversion changes
    nothing.
    """
    store = new_store(ManualClock(1_700_000_000))
    registry = Registry(IN_TREE)
    policy = json.loads((OLDER / "policy.json").read_text())
    for document in (*documents("early.yaml"), *documents("later.yaml"), policy):
        done = converted(document)
        assert done.changes
        again = converted(done.object)
        assert (done.object, ()) == again
        if done.object["kind"] == "KubeSchedulerConfiguration":
            assert load(yaml.safe_dump(done.object), file="x.yaml", registry=registry).profiles
            continue
        group, _, version = done.object["apiVersion"].partition("/")
        kind = next(
            one for one in store.kinds if (one.group, one.kind) == (group, done.object["kind"])
        )
        assert version == kind.version
        if not list(store.list(kind)):
            store.create(kind, done.object, "default")


def profile_of(policy, *others):
    """Return the profile that a policy becomes beside other objects."""
    given = [(policy, "policy"), *((one, "there") for one in others)]
    found = convert_all(given)[0].object
    assert found is not None
    return found["profiles"][0]


def args_of(profile, plugin):
    return next(one["args"] for one in profile["pluginConfig"] if one["name"] == plugin)


def test_what_ran_under_every_policy_still_does():
    """Taints and cordons were respected with any policy."""
    taint = {"key": "example.com/broken", "effect": "NoExecute"}
    cluster = [
        node("good", cpu="1"),
        node("cordoned", cpu="8", unschedulable=True),
        node("gone", cpu="64", taints=[taint]),
    ]
    batch = Batch(Setups(Registry(IN_TREE)), AnswerOptions(), str)
    for listed in ([], [{"name": "PodFitsResources"}], None):
        policy = {"kind": "Policy", "priorities": [{"name": "LeastRequestedPriority"}]}
        policy |= {} if listed is None else {"predicates": listed}
        config = converted(policy).object
        case = {"objects": cluster, "pending": [pod("p")], "config": config}
        answer = json.loads(batch.answer(json.dumps(case).encode()))

        assert ["good"] == [one["node"] for one in answer["simulation"]["pods"]]


def test_a_policy_goes_by_the_topology_beside_it():
    """A policy is converted by the topology beside it; without one, the notice states what to
    create.
    """
    policy = json.loads((OLDER / "policy.json").read_text())
    _, network = documents("early.yaml")
    network["metadata"]["namespace"] = "test-namespace"
    expected = {
        "namespaces": ["test-namespace"],
        "networkTopologyName": "net-topology-test",
        "weightsName": "NetperfCosts",
    }
    assert expected == args_of(profile_of(policy, network), "NetworkMinCost")

    alone = converted(policy)
    usual = {"namespaces": ["default"], "networkTopologyName": "nt-default"}
    usual["weightsName"] = "UserDefined"
    assert usual == args_of(alone.object["profiles"][0], "NetworkMinCost")
    assert any('NetworkTopology "nt-default" in namespace' in one for one in alone.changes)
    assert any("create it, or name yours" in one for one in alone.changes)


def test_a_token_becomes_a_reference_to_a_secret():
    """The definition has no field for a token; the text without it states what to create."""
    _, network = documents("early.yaml")
    network["metadata"]["namespace"] = "test-namespace"
    network["spec"]["metricProvider"] = [{**network["spec"]["metricProvider"], "token": "hush"}]
    done = converted(network)

    provider = done.object["spec"]["metricProvider"]
    assert {"name": "net-topology-test-token", "key": "token"} == provider["secretRef"]
    assert "token" not in provider
    reported = " ".join(done.changes)
    assert "kubectl create secret generic net-topology-test-token -n test-namespace" in reported
    assert "hush" not in reported
    assert not converted(done.object).changes


def test_definitions_of_older_groups_are_left_out():
    """Current definitions come from crds/."""
    old = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "appgroups.scheduling.sigs.k8s.io"},
        "spec": {"group": "scheduling.sigs.k8s.io", "names": {"kind": "AppGroup"}},
    }
    assert converted(old).object is None
    other = {**old, "spec": {"group": "example.com", "names": {"kind": "AppGroup"}}}
    assert (other, ()) == converted(other)


@pytest.mark.parametrize(
    ("document", "expected_text"),
    [
        ({"kind": "AppGroup", "spec": []}, "spec: expected a mapping"),
        ({"kind": "AppGroup", "spec": {"Pods": [{"type": "Pod"}]}}, r"spec\.Pods\[0\]\.name"),
        ({"kind": "AppGroup", "spec": {"workloads": [3]}}, r"spec\.workloads: expected a list"),
        ({"kind": "NetworkTopology", "spec": {"weights": {}}}, r"spec\.weights: expected a list"),
        ({"kind": "Policy", "predicates": {"a": 1}}, "predicates: expected a list"),
        (
            {"kind": "Policy", "priorities": [{"name": "x", "weight": 0}]},
            r"priorities\[0\]\.weight",
        ),
    ],
)
def test_what_cannot_be_read_is_named(document, expected_text):
    """The error names the field."""
    with pytest.raises(InputError, match=expected_text):
        converted(document)


def test_everything_else_comes_back_as_it_is():
    """A Deployment has no older format."""
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 2}}

    assert (deployment, ()) == converted(deployment)
