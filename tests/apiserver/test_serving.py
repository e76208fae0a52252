"""Discovery, tables, access and health: requests of clients besides those for objects."""

from typing import Any

import pytest

from scheduler.base.release import DEFAULT, Release
from tests.apiserver.api import TABLE, Api
from tests.apiserver.manifests import binding, config, container, deployment, lease, node, pod
from tests.apiserver.realcluster import assets, release_of

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_version(api: Api):
    """Clients compare the version with their own."""
    got = await api.get("/version", record=False)

    release = release_of(assets()) if api.kind == "real" else DEFAULT
    assert release == Release(int(got.body["major"]), int(got.body["minor"]))


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
async def test_health(api: Api, path: str):
    """The response is `ok`."""
    assert "ok" == (await api.get(path)).body


async def test_core_discovery(api: Api):
    """Names, short names, kinds, verbs and subresources of the core group."""
    got = await api.get("/api/v1", record=False)
    found = {r["name"]: r for r in got.body["resources"]}

    assert "v1" == got.body["groupVersion"]
    for name in ("pods", "nodes", "namespaces", "services", "configmaps", "secrets", "events"):
        assert {"create", "delete", "get", "list", "patch", "update", "watch"} <= set(
            found[name]["verbs"]
        )
    assert ["po"] == found["pods"]["shortNames"]
    assert "Pod" == found["pods"]["kind"]
    assert not found["nodes"]["namespaced"]
    assert ["create"] == found["pods/binding"]["verbs"]
    assert "policy" == found["pods/eviction"]["group"]
    assert ["get", "patch", "update"] == found["pods/status"]["verbs"]


SERVED = {
    "apps/v1": ["daemonsets", "deployments", "deployments/scale", "replicasets", "statefulsets"],
    "batch/v1": ["cronjobs", "jobs"],
    "policy/v1": ["poddisruptionbudgets"],
    "storage.k8s.io/v1": [
        "csidrivers",
        "csinodes",
        "csistoragecapacities",
        "storageclasses",
        "volumeattachments",
    ],
    "scheduling.k8s.io/v1": ["priorityclasses"],
    "coordination.k8s.io/v1": ["leases"],
    "events.k8s.io/v1": ["events"],
    "discovery.k8s.io/v1": ["endpointslices"],
    "rbac.authorization.k8s.io/v1": ["clusterroles", "roles"],
    "authentication.k8s.io/v1": ["tokenreviews"],
    "authorization.k8s.io/v1": ["selfsubjectaccessreviews", "subjectaccessreviews"],
    "apiextensions.k8s.io/v1": ["customresourcedefinitions"],
    "resource.k8s.io/v1": [
        "deviceclasses",
        "resourceclaims",
        "resourceclaimtemplates",
        "resourceslices",
    ],
    "node.k8s.io/v1": ["runtimeclasses"],
}


@pytest.mark.parametrize("group_version", SERVED)
async def test_group_discovery(api: Api, group_version: str):
    """The kinds that schedulers and kubectl use have the same discovery entries."""
    got = await api.get(f"/apis/{group_version}", record=False)
    found = {r["name"]: r for r in got.body["resources"]}
    shown = []
    for name in SERVED[group_version]:
        entry = {k: v for k, v in found[name].items() if k != "storageVersionHash"}
        shown.append({**entry, "verbs": sorted(entry["verbs"])})
    api.record({"discovered": shown})

    assert group_version == got.body["groupVersion"]


async def test_group_lists(api: Api):
    """/apis names every group, /apis/GROUP its versions."""
    groups = [g["name"] for g in (await api.get("/apis", record=False)).body["groups"]]
    one = await api.get("/apis/apps")

    assert {name.partition("/")[0] for name in SERVED} <= set(groups)
    assert "apps/v1" == one.body["preferredVersion"]["groupVersion"]


async def test_aggregated_discovery(api: Api):
    """One request returns all groups; kubectl sends it first."""
    headers = {"Accept": AGGREGATED}
    got = await api.get("/apis", headers=headers, record=False)
    core = await api.get("/api", headers=headers, record=False)
    apps = next(item for item in got.body["items"] if item["metadata"]["name"] == "apps")
    found = {r["resource"]: r for r in apps["versions"][0]["resources"]}

    assert "APIGroupDiscoveryList" == got.body["kind"]
    assert "apidiscovery.k8s.io/v2" == got.body["apiVersion"]
    assert AGGREGATED == got.headers["Content-Type"]
    assert "Namespaced" == found["deployments"]["scope"]
    assert {"status", "scale"} == {s["subresource"] for s in found["deployments"]["subresources"]}
    assert "pods" in [r["resource"] for r in core.body["items"][0]["versions"][0]["resources"]]


async def test_openapi(api: Api):
    """Both versions of the document have pods and the merge rules of their lists."""
    three = await api.get("/openapi/v3", record=False)
    link = three.body["paths"]["api/v1"]["serverRelativeURL"]
    core = await api.get(link, record=False)
    two = await api.get("/openapi/v2", record=False)
    schema = core.body["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]

    assert "name" == schema["properties"]["containers"]["x-kubernetes-patch-merge-key"]
    assert "io.k8s.api.core.v1.Pod" in two.body["definitions"]


async def show(api: Api, where: str, **query: Any) -> Any:
    """Return the table of some objects; ages are left out of the comparison."""
    got = await api.get(where, headers={"Accept": TABLE}, record=False, **query)
    assert "Table" == got.body["kind"]
    names = [c["name"] for c in got.body["columnDefinitions"]]
    skip = {"Age", "Last Seen", "First Seen", "Created At"}
    rows = [
        [cell for name, cell in zip(names, row["cells"], strict=True) if name not in skip]
        for row in got.body["rows"]
    ]
    columns = [
        {k: c[k] for k in ("name", "type", "format", "priority")}
        for c in got.body["columnDefinitions"]
    ]
    api.record({"table": where, "columns": columns, "rows": rows})
    return got


async def test_table_of_pods(api: Api):
    """The output of kubectl get pods."""
    await api.post("pods", pod("pending"), record=False)
    await api.post("pods", pod("gated", schedulingGates=[{"name": "a.b/c"}]), record=False)
    two = [container("a"), container("b")]
    await api.post("pods", pod("running", containers=two, nodeName="n1"), record=False)
    status = {
        "phase": "Running",
        "podIP": "10.1.2.3",
        "containerStatuses": [
            {
                "name": "a",
                "ready": True,
                "restartCount": 2,
                "image": "i",
                "imageID": "",
                "state": {"running": {}},
            },
            {
                "name": "b",
                "ready": False,
                "restartCount": 0,
                "image": "i",
                "imageID": "",
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            },
        ],
    }
    await api.patch("pods/running/status", {"status": status}, record=False)
    await api.post("pods", pod("ending", nodeName="n1"), record=False)
    await api.delete("pods/ending", record=False)
    await show(api, "pods")


async def test_table_of_nodes(api: Api):
    """The output of kubectl get nodes."""
    name = api.name("n")
    body = node(name, unschedulable=True)
    body["metadata"]["labels"]["node-role.kubernetes.io/worker"] = ""
    body["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    body["status"]["addresses"] = [{"type": "InternalIP", "address": "10.0.0.1"}]
    body["status"]["nodeInfo"] = {
        "kubeletVersion": "v1.36.0",
        "osImage": "os",
        "kernelVersion": "k",
        "containerRuntimeVersion": "c",
        "machineID": "",
        "systemUUID": "",
        "bootID": "",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
    await api.post("nodes", body, record=False)
    await show(api, f"nodes/{name}")
    await api.delete(f"nodes/{name}", record=False)


TABLES: dict[str, tuple[str, dict[str, Any]]] = {
    "configmap": ("configmaps", config("o", a="1", b="2")),
    "deployment": ("deployments", deployment("o")),
    "lease": ("leases", lease("o")),
    "secret": ("secrets", {"metadata": {"name": "o"}, "data": {"a": "ZA=="}}),
    "service": (
        "services",
        {
            "metadata": {"name": "o"},
            "spec": {"clusterIP": "None", "ports": [{"port": 80}], "selector": {"a": "b"}},
        },
    ),
    "statefulset": (
        "statefulsets",
        {
            "metadata": {"name": "o"},
            "spec": {
                "selector": {"matchLabels": {"app": "o"}},
                "template": deployment("o")["spec"]["template"],
            },
        },
    ),
    "daemonset": (
        "daemonsets",
        {
            "metadata": {"name": "o"},
            "spec": {
                "selector": {"matchLabels": {"app": "o"}},
                "template": deployment("o")["spec"]["template"],
            },
        },
    ),
    "replicaset": (
        "replicasets",
        {
            "metadata": {"name": "o"},
            "spec": {
                "selector": {"matchLabels": {"app": "o"}},
                "template": deployment("o")["spec"]["template"],
            },
        },
    ),
    "job": (
        "jobs",
        {
            "metadata": {"name": "o"},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container()]}}},
        },
    ),
    "budget": (
        "poddisruptionbudgets",
        {
            "metadata": {"name": "o"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
        },
    ),
    "claim": (
        "persistentvolumeclaims",
        {
            "metadata": {"name": "o"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "fast",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    ),
    "role": ("roles", {"metadata": {"name": "o"}, "rules": []}),
}


@pytest.mark.parametrize("what", TABLES)
async def test_tables(api: Api, what: str):
    """The tables of common kinds have the expected columns and cells."""
    where, body = TABLES[what]
    assert 201 == (await api.post(where, body, record=False)).code

    await show(api, f"{where}/o")


async def test_table_of_events(api: Api):
    """The output of kubectl get events."""
    body = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": api.ns},
        "reason": "Started",
        "message": "m",
        "type": "Normal",
        "source": {"component": "kubelet"},
        "count": 3,
    }
    await api.post("events", body, record=False)
    await show(api, "events/e")


async def test_tables_carry_metadata(api: Api):
    """Each row has the object's metadata, for kubectl's own columns."""
    await api.post("configmaps", config(a="1"), record=False)
    got = await api.get("configmaps/c", headers={"Accept": TABLE}, record=False)
    row = got.body["rows"][0]["object"]
    full = await api.get(
        "configmaps/c", headers={"Accept": TABLE}, includeObject="Object", record=False
    )

    assert "PartialObjectMetadata" == row["kind"]
    assert "c" == row["metadata"]["name"]
    assert {"a": "1"} == full.body["rows"][0]["object"]["data"]


async def test_metadata_only(api: Api):
    """PartialObjectMetadata for clients that need no more."""
    await api.post("configmaps", config(a="1"), record=False)
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    one = await api.get("configmaps/c", headers={"Accept": accept})
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    many = await api.get("configmaps", headers={"Accept": accept}, fieldSelector="metadata.name=c")

    assert "PartialObjectMetadata" == one.body["kind"]
    assert "data" not in one.body
    assert "PartialObjectMetadataList" == many.body["kind"]


async def test_an_unknown_token_is_unauthorized(api: Api):
    """The response is 401."""
    assert 401 == (await api.get("pods", headers={"Authorization": "Bearer wrong"})).code


async def test_anonymous_callers_are_refused(api: Api):
    """403 names the anonymous user and the requested action."""
    anonymous = {"Authorization": ""}

    assert 403 == (await api.get("pods", headers=anonymous)).code
    assert 403 == (await api.post("pods", pod(), headers=anonymous)).code
    assert 403 == (await api.get("nodes", headers=anonymous)).code
    assert 403 == (await api.get("/apis/apps/v1/deployments/", headers=anonymous)).code


async def test_token_review(api: Api):
    """The review names the owner of a token."""
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    known = await api.post(path, {"spec": {"token": "admin-token"}}, record=False)
    unknown = await api.post(path, {"spec": {"token": "unknown-token"}}, record=False)

    assert known.body["status"]["authenticated"]
    assert "admin" == known.body["status"]["user"]["username"]
    assert "system:masters" in known.body["status"]["user"]["groups"]
    assert not unknown.body["status"].get("authenticated", False)


async def test_access_reviews(api: Api):
    """The answer is whether a user may perform an action."""
    root = "/apis/authorization.k8s.io/v1"
    what = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": api.ns}}
    groups = {"spec": {**what, "user": "admin", "groups": ["system:masters"]}}
    allowed = await api.post(f"{root}/subjectaccessreviews", groups, record=False)
    foreign = {"spec": {**what, "user": "stranger"}}
    refused = await api.post(f"{root}/subjectaccessreviews", foreign, record=False)
    own = await api.post(f"{root}/selfsubjectaccessreviews", {"spec": what}, record=False)

    assert 201 == allowed.code
    assert allowed.body["status"]["allowed"]
    assert not refused.body["status"]["allowed"]
    assert own.body["status"]["allowed"]


async def test_ordinary_answers_are_json(api: Api):
    """Responses have the JSON content type and the caching headers."""
    got = await api.get("configmaps", record=False)

    assert "application/json" == got.headers["Content-Type"]
    assert "no-cache, private" == got.headers["Cache-Control"]


async def test_a_bound_pod_in_a_table(api: Api):
    """The node shows in the wide columns."""
    await api.post("pods", pod(), record=False)
    await api.post("pods/p/binding", binding("p", "n7"), record=False)
    await show(api, "pods")


async def test_tokens_of_service_accounts(api: Api):
    """A TokenRequest returns a token that a TokenReview accepts."""
    await api.post("serviceaccounts", {"metadata": {"name": "robot"}})
    body = {"spec": {"expirationSeconds": 3600}}
    made = await api.post("serviceaccounts/robot/token", body, record=False)
    short = await api.post(
        "serviceaccounts/robot/token", {"spec": {"expirationSeconds": 5}}, record=False
    )
    review = {"spec": {"token": made.body["status"]["token"]}}
    known = await api.post("/apis/authentication.k8s.io/v1/tokenreviews", review, record=False)

    assert 201 == made.code
    assert made.body["status"]["expirationTimestamp"]
    assert 422 == short.code
    assert f"system:serviceaccount:{api.ns}:robot" == known.body["status"]["user"]["username"]
    assert "system:serviceaccounts" in known.body["status"]["user"]["groups"]
