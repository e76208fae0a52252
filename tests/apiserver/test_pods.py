"""The API server's treatment of pods: defaults, admission, validation, immutable fields."""

from typing import Any

import pytest

from tests.apiserver.api import STRATEGIC_PATCH, Api
from tests.apiserver.manifests import container, node, pod

DEFAULTED: dict[str, dict[str, Any]] = {
    "plain": {},
    "latest-image": {"containers": [container(image="nginx")]},
    "digest": {"containers": [container(image="nginx@sha256:" + "a" * 64)]},
    "registry-port": {"containers": [container(image="r.example:5000/nginx")]},
    "requests": {
        "containers": [container(resources={"requests": {"cpu": "0.5", "memory": "1024Mi"}})]
    },
    "limits-only": {"containers": [container(resources={"limits": {"cpu": 1, "memory": "1G"}})]},
    "guaranteed": {
        "containers": [
            container(
                resources={
                    "requests": {"cpu": "1", "memory": "1Gi"},
                    "limits": {"cpu": "1000m", "memory": "1Gi"},
                }
            )
        ]
    },
    "odd-quantities": {
        "containers": [
            container(
                resources={
                    "requests": {
                        "cpu": "1500m",
                        "memory": "123456789",
                        "ephemeral-storage": "1e3",
                        "example.com/x": "2",
                    },
                    "limits": {"example.com/x": "2", "memory": "0.5Gi"},
                }
            )
        ]
    },
    "ports": {"containers": [container(ports=[{"containerPort": 80}])]},
    "host-network": {
        "hostNetwork": True,
        "containers": [container(ports=[{"containerPort": 80, "protocol": "UDP"}])],
    },
    "probes": {
        "containers": [
            container(
                livenessProbe={"httpGet": {"port": 80}},
                readinessProbe={"tcpSocket": {"port": "http"}, "periodSeconds": 3},
                startupProbe={"exec": {"command": ["true"]}},
            )
        ]
    },
    "env": {
        "containers": [
            container(
                env=[
                    {"name": "A", "value": "b"},
                    {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                ]
            )
        ]
    },
    "volumes": {
        "volumes": [
            {"name": "e", "emptyDir": {}},
            {"name": "c", "configMap": {"name": "c"}},
            {"name": "s", "secret": {"secretName": "s"}},
            {"name": "h", "hostPath": {"path": "/x"}},
            {"name": "n"},
            {"name": "p", "persistentVolumeClaim": {"claimName": "p"}},
            {
                "name": "d",
                "downwardAPI": {
                    "items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]
                },
            },
        ]
    },
    "init-and-sidecar": {
        "initContainers": [container("i"), container("s", restartPolicy="Always")]
    },
    "gated": {"schedulingGates": [{"name": "example.com/wait"}]},
    "toleration": {
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
        ]
    },
    "tolerates-all": {"tolerations": [{"operator": "Exists"}]},
    "spread": {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "a"}},
                "matchLabelKeys": ["hash"],
            }
        ]
    },
    "affinity": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "topologyKey": "zone",
                        "labelSelector": {"matchLabels": {"app": "a"}},
                        "matchLabelKeys": ["hash"],
                        "mismatchLabelKeys": ["team"],
                    }
                ]
            },
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 3,
                        "preference": {
                            "matchExpressions": [{"key": "k", "operator": "Gt", "values": ["1"]}]
                        },
                    }
                ]
            },
        }
    },
    "scheduler-name": {"schedulerName": "trellis", "priorityClassName": "system-node-critical"},
    "pod-resources": {"resources": {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}},
    "never-restart": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0},
}


@pytest.mark.parametrize("what", DEFAULTED)
async def test_pods_are_completed(api: Api, what: str):
    """The server fills in the recorded fields, and no other."""
    body = pod(labels={"app": "a", "hash": "h1", "team": "t"}, **DEFAULTED[what])

    assert 201 == (await api.post("pods", body)).code


INVALID: dict[str, dict[str, Any]] = {
    "no-containers": {"containers": []},
    "no-container-name": {"containers": [{"image": "i"}]},
    "bad-container-name": {"containers": [container("Bad_Name")]},
    "twice-the-name": {"containers": [container(), container()]},
    "no-image": {"containers": [{"name": "c"}]},
    "negative-request": {"containers": [container(resources={"requests": {"cpu": "-1"}})]},
    "request-over-limit": {
        "containers": [container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})]
    },
    "unknown-resource": {"containers": [container(resources={"requests": {"gold": "1"}})]},
    "extended-without-limit": {
        "containers": [container(resources={"requests": {"example.com/x": "1"}})]
    },
    "port-out-of-range": {"containers": [container(ports=[{"containerPort": 70000}])]},
    "unknown-protocol": {
        "containers": [container(ports=[{"containerPort": 7, "protocol": "ICMP"}])]
    },
    "restart-policy": {"restartPolicy": "Sometimes"},
    "toleration-operator": {"tolerations": [{"key": "a", "operator": "Near"}]},
    "toleration-value-with-exists": {
        "tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]
    },
    "toleration-without-key": {"tolerations": [{"value": "x"}]},
    "toleration-effect": {"tolerations": [{"key": "a", "effect": "Never"}]},
    "toleration-seconds": {
        "tolerations": [
            {"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}
        ]
    },
    "no-terms": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}
            }
        }
    },
    "node-operator": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "k", "operator": "Near", "values": ["v"]}]}
                    ]
                }
            }
        }
    },
    "in-without-values": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In"}]}]
                }
            }
        }
    },
    "exists-with-values": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "k", "operator": "Exists", "values": ["v"]}]}
                    ]
                }
            }
        }
    },
    "weight-out-of-range": {
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 101,
                        "preference": {"matchExpressions": [{"key": "k", "operator": "Exists"}]},
                    }
                ]
            }
        }
    },
    "no-topology-key": {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": ""}
                ]
            }
        }
    },
    "skew-of-zero": {
        "topologySpreadConstraints": [
            {"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ]
    },
    "spread-action": {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "Perhaps"}
        ]
    },
    "gates-twice": {"schedulingGates": [{"name": "a.b/c"}, {"name": "a.b/c"}]},
    "gated-and-bound": {"schedulingGates": [{"name": "a.b/c"}], "nodeName": "n"},
    "two-faults": {"restartPolicy": "Sometimes", "containers": []},
}


@pytest.mark.parametrize("what", INVALID)
async def test_invalid_pods_are_refused(api: Api, what: str):
    """The server responds 422 with one cause per fault, in its own texts."""
    assert 422 == (await api.post("pods", pod(**INVALID[what]))).code


REFUSED: dict[str, dict[str, Any]] = {
    "unknown-priority-class": {"priorityClassName": "no-such-class"},
    "own-priority": {"priority": 7},
    "unknown-runtime-class": {"runtimeClassName": "no-such-class"},
    "overhead-without-class": {"overhead": {"cpu": "1"}},
}


@pytest.mark.parametrize("what", REFUSED)
async def test_admission_refuses(api: Api, what: str):
    """Admission rejects with 403 and the reason."""
    assert 403 == (await api.post("pods", pod(**REFUSED[what]))).code


async def test_priority_comes_from_the_class(api: Api):
    """The class gives value and preemption policy."""
    name = api.name("gold")
    body = {
        "metadata": {"name": name},
        "value": 1000,
        "preemptionPolicy": "Never",
        "description": "x",
    }
    made = await api.post("priorityclasses", body)
    got = await api.post("pods", pod(priorityClassName=name))
    changed = await api.patch(f"priorityclasses/{name}", {"value": 5})
    await api.delete(f"priorityclasses/{name}")

    assert 201 == made.code
    assert 1000 == got.body["spec"]["priority"]
    assert "Never" == got.body["spec"]["preemptionPolicy"]
    assert 422 == changed.code


async def test_runtime_class_adds_overhead(api: Api):
    """The class sets overhead, node selector and tolerations."""
    name = api.name("kata")
    body = {
        "metadata": {"name": name},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {
            "nodeSelector": {"kata": "yes"},
            "tolerations": [{"key": "kata", "operator": "Exists"}],
        },
    }
    await api.post("runtimeclasses", body)
    got = await api.post("pods", pod(runtimeClassName=name, nodeSelector={"a": "b"}))
    await api.delete(f"runtimeclasses/{name}")

    assert {"cpu": "250m"} == got.body["spec"]["overhead"]
    assert {"a": "b", "kata": "yes"} == got.body["spec"]["nodeSelector"]


async def test_limit_range_gives_defaults(api: Api):
    """The defaults of a LimitRange apply to containers without amounts."""
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "l"},
        "spec": {
            "limits": [
                {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}}
            ]
        },
    }
    await api.post("limitranges", limits)
    # The plugin reads from a cache that may be a moment behind.
    reply = await api.post("pods", pod("other"), record=False)
    while "limits" not in reply.body["spec"]["containers"][0]["resources"]:
        await api.delete("pods/other", record=False)
        reply = await api.post("pods", pod("other"), record=False)
    got = await api.post("pods", pod())

    resources = got.body["spec"]["containers"][0]["resources"]
    assert {"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}} == resources


@pytest.mark.parametrize(
    "change",
    [
        {"nodeSelector": {"a": "b"}},
        {"schedulerName": "other"},
        {"restartPolicy": "Never"},
        {"priority": 5},
        {"containers": [container(resources={"requests": {"cpu": "1"}})]},
        {"schedulingGates": [{"name": "a.b/new"}]},
        {"nodeName": "n"},
    ],
)
async def test_most_of_a_pod_is_fixed(api: Api, change: dict[str, Any]):
    """422 for changes of immutable fields."""
    await api.post("pods", pod())
    reply = await api.patch("pods/p", {"spec": change}, record=False)

    assert 422 == reply.code
    assert reply.message.startswith('Pod "p" is invalid: ')
    assert "Forbidden" in reply.message


@pytest.mark.parametrize(
    "change",
    [
        {"containers": [{"name": "c", "image": "pause:4"}]},
        {"activeDeadlineSeconds": 100},
        {"tolerations": [{"key": "new", "operator": "Exists"}]},
    ],
)
async def test_some_of_a_pod_may_change(api: Api, change: dict[str, Any]):
    """Images, a deadline and further tolerations of a pod may change."""
    await api.post("pods", pod(tolerations=[{"operator": "Exists"}]))
    if "tolerations" in change:
        change = {"tolerations": [{"operator": "Exists"}, *change["tolerations"]]}

    assert 200 == (await api.patch("pods/p", {"spec": change}, kind=STRATEGIC_PATCH)).code


async def test_gates_can_only_be_removed(api: Api):
    """Gates can be removed one by one; the condition stays until a scheduler has seen the pod."""
    await api.post("pods", pod(schedulingGates=[{"name": "a.b/c"}, {"name": "a.b/d"}]))
    one = await api.patch("pods/p", {"spec": {"schedulingGates": [{"name": "a.b/d"}]}})
    more = await api.patch(
        "pods/p", {"spec": {"schedulingGates": [{"name": "a.b/d"}, {"name": "a.b/e"}]}}
    )
    none = await api.patch("pods/p", {"spec": {"schedulingGates": []}})

    assert 200 == one.code
    assert 422 == more.code
    assert "schedulingGates" not in none.body["spec"]


async def test_a_gated_pod_may_narrow_its_nodes(api: Api):
    """While gated the node selector may grow, and only grow."""
    await api.post("pods", pod(schedulingGates=[{"name": "a.b/c"}], nodeSelector={"a": "b"}))
    more = await api.patch("pods/p", {"spec": {"nodeSelector": {"c": "d"}}})
    less = await api.patch("pods/p", {"spec": {"nodeSelector": {"a": None}}}, record=False)

    assert {"a": "b", "c": "d"} == more.body["spec"]["nodeSelector"]
    assert 422 == less.code


async def test_status_is_written_apart(api: Api):
    """A write to the object keeps the status, a write to the status keeps the spec."""
    made = await api.post("pods", pod())
    body = {**made.body, "status": {"phase": "Running"}}
    spec_write = await api.put("pods/p", body)
    body = {**spec_write.body, "spec": {**made.body["spec"], "schedulerName": "other"}}
    body["status"] = {**made.body["status"], "phase": "Running", "podIP": "10.1.2.3"}
    status_write = await api.put("pods/p/status", body)

    assert "Pending" == spec_write.body["status"]["phase"]
    assert "Running" == status_write.body["status"]["phase"]
    assert "default-scheduler" == status_write.body["spec"]["schedulerName"]


async def test_condition_patches_merge_by_type(api: Api):
    """A patch of a pod's conditions, as a scheduler sends it, merges them by type."""
    await api.post("pods", pod())
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    patch = {"status": {"conditions": [condition], "nominatedNodeName": "n1"}}
    first = await api.patch("pods/p/status", patch, kind=STRATEGIC_PATCH)
    again = {"status": {"conditions": [{"type": "PodScheduled", "message": "changed"}]}}
    second = await api.patch("pods/p/status", again, kind=STRATEGIC_PATCH)

    assert "n1" == first.body["status"]["nominatedNodeName"]
    assert 1 == len(second.body["status"]["conditions"])
    assert "Unschedulable" == second.body["status"]["conditions"][0]["reason"]
    assert "changed" == second.body["status"]["conditions"][0]["message"]


async def test_qos_and_phase_cannot_be_chosen_at_creation(api: Api):
    """A status sent along with a new pod is dropped."""
    body = {**pod(), "status": {"phase": "Running", "podIP": "1.2.3.4"}}
    made = await api.post("pods", body)

    assert "Pending" == made.body["status"]["phase"]
    assert "podIP" not in made.body["status"]


async def test_resources_change_by_resize(api: Api):
    """Only the resize subresource changes resources in place; the generation increases."""
    requests = {"requests": {"cpu": "1", "memory": "1Gi"}}
    await api.post_node(node(api.name("n")), record=False)
    assigned = pod(containers=[container(resources=requests)], nodeName=api.name("n"))
    await api.post("pods", assigned)
    change = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    refused = await api.patch("pods/p", change, kind=STRATEGIC_PATCH, record=False)
    resized = await api.patch("pods/p/resize", change, kind=STRATEGIC_PATCH)

    assert 422 == refused.code
    assert "2" == resized.body["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    assert 2 == resized.meta["generation"]


async def test_resize_changes_nothing_else(api: Api):
    """Labels and images sent along are dropped."""
    requests = {"requests": {"cpu": "1"}}
    await api.post_node(node(api.name("n")), record=False)
    assigned = pod(containers=[container(resources=requests)], nodeName=api.name("n"))
    await api.post("pods", assigned)
    change = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]},
    }
    resized = await api.patch("pods/p/resize", change, kind=STRATEGIC_PATCH)

    assert "a" not in resized.meta["labels"]


async def test_ephemeral_containers_are_added(api: Api):
    """Added as by kubectl debug."""
    await api.post("pods", pod(nodeName="n1"))
    change = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox:1"}]}}
    got = await api.patch("pods/p/ephemeralcontainers", change, kind=STRATEGIC_PATCH)

    assert "debug" == got.body["spec"]["ephemeralContainers"][0]["name"]
