"""The other kinds: defaults at creation, validation, and immutable fields."""

from typing import Any

import pytest

from tests.apiserver.api import Api
from tests.apiserver.manifests import budget, container, deployment

TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [container()]},
}
SELECTOR = {"matchLabels": {"app": "web"}}

CREATED: dict[str, tuple[str, dict[str, Any]]] = {
    "deployment": ("deployments", {"spec": {"selector": SELECTOR, "template": TEMPLATE}}),
    "recreate": (
        "deployments",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE, "strategy": {"type": "Recreate"}}},
    ),
    "replicaset": ("replicasets", {"spec": {"selector": SELECTOR, "template": TEMPLATE}}),
    "statefulset": (
        "statefulsets",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE, "serviceName": "web"}},
    ),
    "daemonset": ("daemonsets", {"spec": {"selector": SELECTOR, "template": TEMPLATE}}),
    "job": (
        "jobs",
        {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container()]}}}},
    ),
    "job-parallel": (
        "jobs",
        {
            "spec": {
                "parallelism": 3,
                "template": {"spec": {"restartPolicy": "Never", "containers": [container()]}},
            }
        },
    ),
    "cronjob": (
        "cronjobs",
        {
            "spec": {
                "schedule": "* * * * *",
                "jobTemplate": {
                    "spec": {
                        "template": {
                            "spec": {"restartPolicy": "Never", "containers": [container()]}
                        }
                    }
                },
            }
        },
    ),
    "pdb": ("poddisruptionbudgets", {"spec": {"selector": SELECTOR, "minAvailable": "50%"}}),
    "claim": (
        "persistentvolumeclaims",
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "fast",
                "resources": {"requests": {"storage": "1024Mi"}},
            }
        },
    ),
    "secret": ("secrets", {"stringData": {"a": "b"}, "data": {"c": "ZA=="}}),
    "serviceaccount": ("serviceaccounts", {}),
    "role": ("roles", {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
    "rolebinding": (
        "rolebindings",
        {
            "roleRef": {"kind": "Role", "name": "r"},
            "subjects": [
                {"kind": "User", "name": "u"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
            ],
        },
    ),
    "networkpolicy": (
        "networkpolicies",
        {"spec": {"podSelector": {}, "egress": [{"to": [{"podSelector": {}}]}]}},
    ),
    "autoscaler": (
        "horizontalpodautoscalers",
        {
            "spec": {
                "maxReplicas": 3,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            }
        },
    ),
    "quota": ("resourcequotas", {"spec": {"hard": {"example.com/none": "1000m"}}}),
    "event": (
        "events",
        {
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "<ns>"},
            "reason": "Test",
            "message": "m",
            "type": "Normal",
        },
    ),
    "claim-of-devices": (
        "resourceclaims",
        {
            "spec": {
                "devices": {
                    "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]
                }
            }
        },
    ),
    "replicationcontroller": ("replicationcontrollers", {"spec": {"template": TEMPLATE}}),
}


@pytest.mark.parametrize("what", CREATED)
async def test_kinds_are_completed(api: Api, what: str):
    """The server fills in the recorded fields, and no other."""
    where, body = CREATED[what]
    body = {**body, "metadata": {"name": "o"}}
    if "involvedObject" in body:
        body["involvedObject"] = {**body["involvedObject"], "namespace": api.ns}

    assert 201 == (await api.post(where, body)).code


CLUSTER_KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "node": ("nodes", {}),
    "node-with-taints": (
        "nodes",
        {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}},
    ),
    "volume": (
        "persistentvolumes",
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/x"},
            }
        },
    ),
    "storageclass": ("storageclasses", {"provisioner": "example.com/p"}),
    "csidriver": ("csidrivers", {"spec": {}}),
    "csinode": (
        "csinodes",
        {
            "spec": {
                "drivers": [{"name": "d.example.com", "nodeID": "n", "allocatable": {"count": 3}}]
            }
        },
    ),
    "priorityclass": ("priorityclasses", {"value": 5}),
    "runtimeclass": ("runtimeclasses", {"handler": "x"}),
}


@pytest.mark.parametrize("what", CLUSTER_KINDS)
async def test_cluster_kinds_are_completed(api: Api, what: str):
    """Cluster-scoped objects are completed as well."""
    where, body = CLUSTER_KINDS[what]
    name = api.name("o")
    made = await api.post(where, {**body, "metadata": {"name": name}})
    await api.delete(f"{where}/{name}", record=False)

    assert 201 == made.code


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "no-selector": ("deployments", {"spec": {"template": TEMPLATE}}),
    "selector-misses": (
        "deployments",
        {"spec": {"selector": {"matchLabels": {"app": "other"}}, "template": TEMPLATE}},
    ),
    "negative-replicas": (
        "deployments",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE, "replicas": -1}},
    ),
    "job-always": (
        "jobs",
        {"spec": {"template": {"spec": {"containers": [container()], "restartPolicy": "Always"}}}},
    ),
    "budget-of-both": (
        "poddisruptionbudgets",
        {"spec": {"selector": SELECTOR, "minAvailable": 1, "maxUnavailable": 1}},
    ),
    "claim-without-mode": (
        "persistentvolumeclaims",
        {"spec": {"resources": {"requests": {"storage": "1Gi"}}}},
    ),
    "service-without-ports": ("services", {"spec": {"selector": {"a": "b"}}}),
    "service-port": ("services", {"spec": {"ports": [{"port": 0}]}}),
    "unnamed-ports": ("services", {"spec": {"ports": [{"port": 1}, {"port": 2}]}}),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_invalid_objects_are_refused(api: Api, what: str):
    """The response is 422 with the server's message."""
    where, body = REFUSED[what]

    assert 422 == (await api.post(where, {**body, "metadata": {"name": "o"}})).code


async def test_services_get_an_address(api: Api):
    """A Service gets a cluster address that stays until it is deleted."""
    body = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}
    made = await api.post("services", body, record=False)
    changed = await api.patch("services/s", {"spec": {"selector": {"c": "d"}}}, record=False)
    moved = await api.patch("services/s", {"spec": {"clusterIP": "10.9.9.9"}}, record=False)

    spec = made.body["spec"]
    assert spec["clusterIP"].startswith("10.")
    assert [spec["clusterIP"]] == spec["clusterIPs"]
    assert {"port": 80, "protocol": "TCP", "targetPort": 80} == spec["ports"][0]
    assert ("ClusterIP", "None", "Cluster") == (
        spec["type"],
        spec["sessionAffinity"],
        spec["internalTrafficPolicy"],
    )
    assert spec["clusterIP"] == changed.body["spec"]["clusterIP"]
    assert 422 == moved.code


async def test_headless_services_have_none(api: Api):
    """clusterIP None stays None."""
    body = {"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}}

    assert 201 == (await api.post("services", body)).code


async def test_node_ports_are_handed_out(api: Api):
    """A port from the range, kept over updates."""
    body = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
    made = await api.post("services", body, record=False)
    port = made.body["spec"]["ports"][0]["nodePort"]
    changed = await api.patch("services/s", {"metadata": {"labels": {"a": "b"}}}, record=False)

    assert 30000 <= port <= 32767
    assert port == changed.body["spec"]["ports"][0]["nodePort"]


IMMUTABLE: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "deployment-selector": (
        "deployments",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
        {
            "spec": {
                "selector": {"matchLabels": {"app": "x"}},
                "template": {"metadata": {"labels": {"app": "x"}}},
            }
        },
    ),
    "configmap": ("configmaps", {"data": {"a": "1"}, "immutable": True}, {"data": {"a": "2"}}),
    "configmap-again": (
        "configmaps",
        {"data": {"a": "1"}, "immutable": True},
        {"immutable": False},
    ),
    "secret-data": ("secrets", {"data": {"a": "ZA=="}, "immutable": True}, {"data": {"a": "ZQ=="}}),
    "role-ref": (
        "rolebindings",
        {"roleRef": {"kind": "Role", "name": "r"}},
        {"roleRef": {"kind": "Role", "name": "other"}},
    ),
}


@pytest.mark.parametrize("what", IMMUTABLE)
async def test_some_fields_are_fixed(api: Api, what: str):
    """422 for changes of immutable fields."""
    where, body, change = IMMUTABLE[what]
    await api.post(where, {**body, "metadata": {"name": "o"}}, record=False)

    assert 422 == (await api.patch(f"{where}/o", change)).code


async def test_scaling_by_the_subresource(api: Api):
    """GET, PUT and PATCH of a Scale change spec.replicas."""
    await api.post("deployments", deployment(), record=False)
    before = await api.get("deployments/web/scale")
    put = await api.put("deployments/web/scale", {**before.body, "spec": {"replicas": 4}})
    patched = await api.patch("deployments/web/scale", {"spec": {"replicas": 2}})
    after = await api.get("deployments/web")

    assert 1 == before.body["spec"]["replicas"]
    assert 4 == put.body["spec"]["replicas"]
    assert 2 == patched.body["spec"]["replicas"]
    assert 2 == after.body["spec"]["replicas"]


async def test_scaling_an_old_version_conflicts(api: Api):
    """A Scale has the resource version of its object, so an old one conflicts."""
    await api.post("deployments", deployment(), record=False)
    scale = await api.get("deployments/web/scale", record=False)
    await api.patch("deployments/web", {"metadata": {"labels": {"a": "b"}}}, record=False)
    late = await api.put("deployments/web/scale", {**scale.body, "spec": {"replicas": 4}})

    assert 409 == late.code


async def test_scaling_below_zero_is_refused(api: Api):
    """The response is 422."""
    await api.post("deployments", deployment(), record=False)
    reply = await api.patch("deployments/web/scale", {"spec": {"replicas": -1}}, record=False)

    assert 422 == reply.code


async def test_status_of_a_budget_is_written_apart(api: Api):
    """The status is written separately, as the controller does."""
    await api.post("poddisruptionbudgets", budget(minAvailable=1), record=False)
    status = {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2}
    got = await api.patch("poddisruptionbudgets/b/status", {"status": status})

    assert 1 == got.body["status"]["disruptionsAllowed"]
