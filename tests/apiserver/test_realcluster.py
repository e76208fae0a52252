"""The real cluster has the properties that other tests rely on."""

import os

import pytest

from tests.apiserver.realcluster import (
    POWERLESS_TOKEN,
    SCHEDULER_TOKEN,
    RealCluster,
    assets,
    release_of,
    start_cluster,
    start_kube_scheduler,
)

pytestmark = pytest.mark.real

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "realcluster-node", "labels": {"case": "realcluster"}},
    "status": {
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


def pod(name: str, **spec: object) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "pause"}], **spec},
    }


def test_it_reports_the_version_that_was_built(real_cluster: RealCluster):
    """A binary without version flags would report v0.0.0, and clients would reject it."""
    code, version = real_cluster.request("GET", "/version")

    assert 200 == code
    release = release_of(assets())
    assert version["gitVersion"].startswith(f"v{release}.")
    assert (str(release.major), str(release.minor)) == (version["major"], version["minor"])


def test_rbac_decides_by_user(real_cluster: RealCluster):
    """An admin may do everything, the scheduler's user what its bootstrap role grants, other users
    nothing.
    """
    pods = "/api/v1/pods"

    assert 200 == real_cluster.request("GET", pods)[0]
    assert 200 == real_cluster.request("GET", pods, token=SCHEDULER_TOKEN)[0]
    assert 403 == real_cluster.request("GET", "/api/v1/secrets", token=SCHEDULER_TOKEN)[0]
    assert 403 == real_cluster.request("GET", pods, token=POWERLESS_TOKEN)[0]
    assert 401 == real_cluster.request("GET", pods, token="unknown")[0]


def test_kubectl_works_through_the_kubeconfig(real_cluster: RealCluster):
    """The kubeconfig carries address, authority and token, so any client can use it."""
    assert "namespace/default" in real_cluster.kubectl("get", "namespaces", "-o", "name").split()


def test_kube_scheduler_places_a_pod_beside_it(real_cluster: RealCluster):
    """The peer of the comparison runs on the cluster with its own user and rights."""
    assert 201 == real_cluster.request("POST", "/api/v1/nodes", NODE)[0]
    # Other tests may have left nodes of their own.
    how = {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"case": "realcluster"}}
    created, _ = real_cluster.request(
        "POST", "/api/v1/namespaces/default/pods", pod("placed", **how)
    )
    assert 201 == created

    with start_kube_scheduler(real_cluster) as scheduler:
        real_cluster.kubectl(
            "wait", "pod/placed", "--for=condition=PodScheduled", "--timeout=120s", "-n", "default"
        )
        metrics = scheduler.get("/metrics")

    _, placed = real_cluster.request("GET", "/api/v1/namespaces/default/pods/placed")
    assert "realcluster-node" == placed["spec"]["nodeName"]
    assert 'scheduler_schedule_attempts_total{profile="default-scheduler"' in metrics


def test_nothing_is_left_behind(tmp_path, monkeypatch):
    """Processes end and the folder is removed, also with a wrong flag; then the log has the
    reason.
    """
    monkeypatch.setattr("tests.apiserver.realcluster.KEPT_LOGS", tmp_path)
    with start_cluster(name="gone") as cluster:
        pids = [cluster.etcd.pid, cluster.apiserver.pid]
        folder = cluster.folder

    assert not folder.exists()
    assert not any(is_alive(pid) for pid in pids)
    with pytest.raises(AssertionError, match="unknown flag: --no-such-flag"):
        start_cluster(["--no-such-flag"], name="wrong").__enter__()
    assert list(tmp_path.glob("wrong-*/kube-apiserver.log"))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)  # signal 0 only checks for the process
    except ProcessLookupError:
        return False
    return True
