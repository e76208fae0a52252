"""What leaves a cluster: what scheduling needs, nothing private, and names hidden on demand."""

import json

from scheduler.testing import node
from scheduler.whatif.anonymize import Anonymizer
from scheduler.whatif.export import exported
from tests.unit.whatif.asking import place, pod, results

SECRET = "hunter2"


def private_pod():
    raw = pod("web-1", node_name="worker-b", labels={"app": "web"}, requests={"cpu": "1"})
    raw["metadata"] |= {
        "uid": "u-1",
        "resourceVersion": "17",
        "managedFields": [{"manager": SECRET}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": SECRET},
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    raw["spec"]["containers"][0] |= {
        "env": [{"name": "PASSWORD", "value": SECRET}],
        "command": ["run", SECRET],
        "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "a", "value": SECRET}]}},
    }
    raw["spec"] |= {
        "imagePullSecrets": [{"name": SECRET}],
        "volumes": [
            {"name": "s", "secret": {"secretName": SECRET}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "r", "rbd": {"image": "i", "monitors": ["m"], "secretRef": {"name": SECRET}}},
        ],
    }
    raw["status"] = {"phase": "Running", "podIP": SECRET, "containerStatuses": [{"name": "main"}]}
    return raw


def test_nothing_private_leaves():
    """No environment, commands, probes, secrets' names, annotations or managed fields."""
    got = exported("Pod", "v1", private_pod())

    assert SECRET not in json.dumps(got)
    assert {"name": "web-1", "namespace": "default", "uid": "u-1", "labels": {"app": "web"}} | {
        "creationTimestamp": "2026-01-01T00:00:00Z"
    } == got["metadata"]
    assert [
        {"name": "s", "emptyDir": {}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "r", "rbd": {"image": "i", "monitors": ["m"]}},
    ] == got["spec"]["volumes"]
    assert "Running" == got["status"]["phase"]


def test_templates_and_services():
    """A workload's template is cleaned like a pod; a service keeps what it selects."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": private_pod()["spec"]}
    replicas = exported(
        "ReplicaSet", "apps/v1", {"metadata": {"name": "r"}, "spec": {"template": template}}
    )
    service = {
        "clusterIP": "10.0.0.1",
        "selector": {"a": "b"},
        "ports": [{"port": 80, "nodePort": 3}],
    }
    got = exported("Service", "v1", {"metadata": {"name": "s", "uid": "x"}, "spec": service})

    assert SECRET not in json.dumps(replicas)
    assert {"selector": {"a": "b"}, "ports": [{"port": 80}]} == got["spec"]
    assert {"name": "s"} == got["metadata"]


def cluster():
    """Nodes in zones, a workload that keeps apart, one that follows it, and one that fits nowhere."""
    anti = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"example.com/team": "payments"}},
    }
    near = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": anti["labelSelector"]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    nodes = [
        node(
            name,
            labels={
                "kubernetes.io/hostname": name,
                "topology.kubernetes.io/zone": f"eu-{name[-1]}",
                "example.com/age": str(age),
            },
            taints=[{"key": "example.com/old", "value": "yes-it-is", "effect": "NoSchedule"}]
            * (age > 5),
            images=[{"names": ["registry.acme.example/shop:3"], "sizeBytes": 900_000_000}]
            * (age == 2),
        )
        for age, name in enumerate(("gold-c", "iron-a", "zinc-b", "lead-a"), 1)
    ]
    labels = {"example.com/team": "payments"}
    pods = [
        pod(f"pay-{n}", labels=labels, spec={"affinity": {"podAntiAffinity": {required: [anti]}}})
        for n in range(3)
    ]
    pods.append(pod("log", spec={"affinity": {"podAffinity": {required: [near]}}}))
    pods.append(pod("shop", image="registry.acme.example/shop:3"))
    young = {"key": "example.com/age", "operator": "Gt", "values": ["7"]}
    terms = {required: {"nodeSelectorTerms": [{"matchExpressions": [young]}]}}
    pods.append(pod("young", spec={"affinity": {"nodeAffinity": terms}}))
    for raw in pods:
        raw["metadata"]["uid"] = f"uid-{raw['metadata']['name']}"
    return [*nodes, *pods]


def renamed(objects):
    cleaned = [exported(raw["kind"], raw["apiVersion"], raw) for raw in objects]
    hiding = Anonymizer()
    hiding.learn(cleaned)
    return [hiding.renamed(raw) for raw in cleaned]


def test_hidden_names_leave_the_decisions_as_they_are():
    """The same simulation comes out, name by name, and no name of before is left."""
    before, hidden = cluster(), renamed(cluster())
    nodes = dict(zip(sorted(raw["metadata"]["name"] for raw in before[:4]), range(4), strict=True))
    first, second = place(*before), place(*hidden)
    wanted = [None if one.node is None else f"node-{nodes[one.node] + 1}" for one in first.pods]

    assert wanted == [one.node for one in second.pods]
    assert [one.result for one in first.pods] == [one.result for one in second.pods]
    assert len(set(wanted)) > 2
    text = json.dumps(hidden)
    for word in ("gold", "pay", "acme", "shop", "team", "eu-", "yes-it-is"):
        assert word not in text, word


def test_what_belongs_together_stays_together():
    """Equal words stay equal wherever they stand; words of the API and amounts stay as they are."""
    nodes = [raw for raw in renamed(cluster()) if raw["kind"] == "Node"]

    for raw in nodes:
        assert raw["metadata"]["name"] == raw["metadata"]["labels"]["kubernetes.io/hostname"]
        assert "16Gi" == raw["status"]["allocatable"]["memory"]
    zones = [raw["metadata"]["labels"]["topology.kubernetes.io/zone"] for raw in nodes]
    assert zones[1] == zones[3] != zones[0]


def test_the_claim_of_an_ephemeral_volume_is_still_found():
    """Its name is made of those of pod and volume, before and after."""
    owner = pod(
        "db", spec={"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}]}
    )
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "db-data"}}
    one, other = renamed([owner, claim])

    volume = one["spec"]["volumes"][0]["name"]
    assert f"{one['metadata']['name']}-{volume}" == other["metadata"]["name"]


def test_an_exported_snapshot_gives_the_same_answer():
    """Cleaning takes nothing away that a decision looks at."""
    before = cluster()

    assert results(place(*before)) == results(
        place(*(exported(raw["kind"], raw["apiVersion"], raw) for raw in before))
    )
