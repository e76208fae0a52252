"""An exported snapshot has the inputs of scheduling, nothing private, and hidden names on
demand.
"""

import json

from scheduler.moves.facts import ClusterFacts, JobFacts
from scheduler.objects.kinds import DERIVABLE
from scheduler.snapshot.anonymous.anonymize import Anonymizer
from scheduler.snapshot.documents import WORKLOADS_ANNOTATION, SourceFile, items_of
from scheduler.snapshot.export import exported, exported_workload
from scheduler.testing import node
from tests.unit.plugins import kueueobjects, volcanoobjects
from tests.unit.simulate.asking import place, pod, results

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


def test_a_workload_is_exported_without_its_templates():
    """The numbers that make a group, the failure policy of a Job, and nothing private."""
    policy = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    spec = {
        "parallelism": 2,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "podFailurePolicy": policy,
        "template": {"spec": private_pod()["spec"]},
    }
    meta = {"name": "j", "namespace": "n", "uid": "u", "annotations": {"a": SECRET}}
    (kind,) = (one for one in DERIVABLE if one.kind == "Job")
    got = exported_workload(kind, {"metadata": meta, "spec": spec})

    assert SECRET not in json.dumps(got)
    assert {"name": "j", "namespace": "n", "uid": "u"} == got["metadata"]
    hidden = Anonymizer().renamed(got)
    for one in (got, hidden):
        assert (2, "Indexed", 0, policy) == tuple(
            one["spec"][field]
            for field in ("parallelism", "completionMode", "backoffLimit", "podFailurePolicy")
        )
    workloads = json.dumps([hidden])
    document = {"kind": "List", "metadata": {"annotations": {WORKLOADS_ANNOTATION: workloads}}}
    facts = ClusterFacts()
    for item in items_of(SourceFile("x", json.dumps({**document, "items": []}).encode())):
        assert item.is_live
        facts.take(item)
    assert [JobFacts(0, "Ignore")] == list(facts.jobs.values())


def test_templates_and_services():
    """A workload's template is cleaned like a pod; a service keeps its selector."""
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
    """Return nodes in zones, a workload with anti-affinity, one with affinity, and one without a
    fit.
    """
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
    """The result of the simulation is the same, name by name, and no former name is left."""
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
    """Equal words stay equal in every field; words of the API and amounts are unchanged."""
    nodes = [raw for raw in renamed(cluster()) if raw["kind"] == "Node"]

    for raw in nodes:
        assert raw["metadata"]["name"] == raw["metadata"]["labels"]["kubernetes.io/hostname"]
        assert "16Gi" == raw["status"]["allocatable"]["memory"]
    zones = [raw["metadata"]["labels"]["topology.kubernetes.io/zone"] for raw in nodes]
    assert zones[1] == zones[3] != zones[0]


def test_the_claim_of_an_ephemeral_volume_is_still_found():
    """The claim's name is made of those of pod and volume, before and after."""
    owner = pod(
        "db", spec={"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}]}
    )
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "db-data"}}
    one, other = renamed([owner, claim])

    volume = one["spec"]["volumes"][0]["name"]
    assert f"{one['metadata']['name']}-{volume}" == other["metadata"]["name"]


def test_an_exported_snapshot_gives_the_same_answer():
    """The export keeps every input of a decision."""
    before = cluster()

    assert results(place(*before)) == results(
        place(*(exported(raw["kind"], raw["apiVersion"], raw) for raw in before))
    )


def test_what_custom_resources_say_in_amounts_and_words_stays():
    """Zones, figures, dependencies and costs; names in them are hidden as everywhere else."""
    zone = {
        "name": "node-0",
        "type": "Node",
        "resources": [{"name": "cpu", "capacity": "8", "allocatable": "8", "available": "500m"}],
    }
    topology = {
        "kind": "NodeResourceTopology",
        "metadata": {"name": "worker-b"},
        "topologyPolicies": ["SingleNUMANodeContainerLevel"],
        "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
        "zones": [zone],
    }
    usage = {"resources": {"cpu": "1500m", "memory": "3Gi"}}
    metric = {
        "kind": "NodeMetric",
        "metadata": {"name": "worker-b"},
        "status": {
            "nodeMetric": {"nodeUsage": usage, "aggregatedNodeUsages": [{"duration": "5m0s"}]}
        },
    }
    workload = {"kind": "Deployment", "name": "api", "selector": "api", "apiVersion": "apps/v1"}
    needs = {"workload": workload, "minBandwidth": "100Mi", "maxNetworkCost": 30}
    group = {
        "kind": "AppGroup",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "topologySortingAlgorithm": "KahnSort",
            "workloads": [{"workload": workload, "dependencies": [needs]}],
        },
    }
    cost = {"destination": "eu-2", "bandwidthCapacity": "1Gi", "networkCost": 20}
    origins = [{"origin": "eu-1", "costList": [cost]}]
    tables = [{"topologyKey": "topology.kubernetes.io/region", "originList": origins}]
    network = {
        "kind": "NetworkTopology",
        "metadata": {"name": "net", "namespace": "default"},
        "spec": {"weights": [{"name": "UserDefined", "topologyList": tables}]},
    }
    labels = {
        "appgroup.diktyo.x-k8s.io": "shop",
        "appgroup.diktyo.x-k8s.io.workload": "api",
        "koordinator.sh/qosClass": "LSR",
    }
    member = pod("api-1", node_name="worker-b", labels=labels)
    raw = [
        node("worker-b", labels={"topology.kubernetes.io/region": "eu-2"}),
        member,
        topology,
        metric,
        group,
        network,
    ]
    hiding = Anonymizer()
    hiding.learn(raw)
    host, one, numa, load, apps, costs = (hiding.renamed(obj) for obj in raw)

    name = host["metadata"]["name"]
    assert name == numa["metadata"]["name"] == load["metadata"]["name"] != "worker-b"
    assert {**topology, "metadata": {"name": name}} == numa
    assert usage == load["status"]["nodeMetric"]["nodeUsage"]
    assert "5m0s" == load["status"]["nodeMetric"]["aggregatedNodeUsages"][0]["duration"]
    assert "KahnSort" == apps["spec"]["topologySortingAlgorithm"]
    (entry,) = apps["spec"]["workloads"]
    assert "100Mi" == entry["dependencies"][0]["minBandwidth"]
    kept = one["metadata"]["labels"]
    assert "LSR" == kept["koordinator.sh/qosClass"]
    assert apps["metadata"]["name"] == kept["appgroup.diktyo.x-k8s.io"] != "shop"
    assert entry["workload"]["selector"] == kept["appgroup.diktyo.x-k8s.io.workload"] != "api"
    (table,) = costs["spec"]["weights"]
    (origin,) = table["topologyList"][0]["originList"]
    assert "UserDefined" == table["name"]
    assert "1Gi" == origin["costList"][0]["bandwidthCapacity"]
    region = host["metadata"]["labels"]["topology.kubernetes.io/region"]
    assert region == origin["costList"][0]["destination"] != "eu-2"


def test_config_maps_keep_their_kind():
    """The internal name of the kind ConfigMap differs from that of kubectl."""
    raw = {"metadata": {"name": "g", "labels": {"sakkara.group": ""}}, "data": {"a": "b"}}

    assert "ConfigMap" == exported("GroupConfigMap", "v1", raw)["kind"]


def test_groups_of_other_sources_are_still_groups():
    """Annotations of pods and PodGroups that describe groups stay, also with hidden names.

    Annotations that hide words are removed.
    """
    pods = [
        *kueueobjects.members("g", 2, podset_required_topology=kueueobjects.RACK),
        *volcanoobjects.members("v", 2),
    ]
    rules = {"sakkara.group/constraints": '{"node": {"type": "spread"}}'}
    gang = volcanoobjects.pod_group("v", 2, annotations=rules)
    for number, one in enumerate(pods):
        one["metadata"]["uid"] = f"uid-{number}"
    objects = [
        *kueueobjects.nodes(),
        kueueobjects.topology("t", kueueobjects.ZONE, kueueobjects.RACK),
    ]
    for hidden in (False, True):
        every = [*objects, gang, *pods]
        kept = [exported(one["kind"], one["apiVersion"], one) for one in every]
        assert rules == kept[-5]["metadata"]["annotations"]
        done = place(*(renamed(every) if hidden else kept))
        assert 4 == done.summary.scheduled
        assert {"Bound"} == {one.status for one in done.groups}
        assert 2 == len(done.groups)
