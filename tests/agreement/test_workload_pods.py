"""The pods that `simulate` makes of a workload equal those of the API server and the
controllers.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest

from scheduler.base.errors import ObjectError
from scheduler.objects.pod import Pod
from scheduler.objects.storage import PersistentVolumeClaim
from scheduler.sandbox.controllers.ephemeralvolumes import EphemeralVolumes
from scheduler.sandbox.controllers.resourceclaims import ResourceClaims
from scheduler.sandbox.controllers.workloads.daemonset import DaemonSets
from scheduler.sandbox.controllers.workloads.deployment import Deployments
from scheduler.sandbox.controllers.workloads.job import Jobs
from scheduler.sandbox.controllers.workloads.replicaset import ReplicaSets
from scheduler.sandbox.controllers.workloads.statefulset import StatefulSets
from scheduler.sandbox.kinds.kinds import PERSISTENTVOLUMECLAIMS, PODS
from scheduler.sandbox.manifests import Manifest, apply
from scheduler.snapshot.documents import items_of_objects
from scheduler.snapshot.snapshot import read_snapshot
from tests.agreement.comparable import claims_text, pods_text
from tests.agreement.workloads import CLUSTER, Case, created, expected_pods
from tests.apiserver.patience import until
from tests.apiserver.realcluster import RealCluster, start_cluster, start_kube_controller_manager
from tests.unit.sandbox.cluster import SimulatedCluster

SAMPLE, ALL = 20, 200
# A LimitRange can raise requests above a limit, or above the pod's.
REFUSED = ("must be less than or equal to", "must be greater than or equal to")
ACTORS = (
    Deployments,
    ReplicaSets,
    StatefulSets,
    DaemonSets,
    Jobs,
    ResourceClaims,
    EphemeralVolumes,
)
Found = tuple[list[str], list[str]]


def simulated(case: Case) -> tuple[list[Pod], Found]:
    """Return the pods of `simulate`, and pods and claims as texts.

    None if it rejects the pods.
    """
    try:
        snapshot = read_snapshot(
            items_of_objects(CLUSTER, "cluster"), items_of_objects(case.objects, "given")
        )
    except ObjectError as error:
        if not any(one in error.message for one in REFUSED):
            raise
        return [], ([], [])
    pods = list(snapshot.unbound)
    claims = [obj for kind, obj in snapshot.objects if kind == "PersistentVolumeClaim"]
    return pods, (pods_text(pods), claims_text(claims, pods))


def texts(pods: Sequence[Any], claims: Sequence[Any]) -> Found:
    """Return plain pods and claims as texts."""
    found = [msgspec.convert(one, Pod) for one in pods]
    structs = [msgspec.convert(one, PersistentVolumeClaim) for one in claims]
    return pods_text(found), claims_text(structs, found)


def check(case: Case, made: Found, wanted: Found) -> None:
    """Compare the pods; for an ordered StatefulSet only its existing pods.

    Pods that the API server rejects have no claims, but their siblings have.
    """
    if not made[0]:
        assert [] == wanted[0], f"seed {case.seed}"
        return
    for ours, theirs in zip(made, wanted, strict=True):
        if expected_pods(case):
            assert theirs == ours, f"seed {case.seed}"
        else:
            assert set(theirs) <= set(ours), f"seed {case.seed}"


def sandboxed(case: Case) -> Found:
    """Return the objects that a sandbox with its controllers makes."""
    sandbox = SimulatedCluster(nodes=0, actors=ACTORS, bind=False)
    names = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": case.namespace}}]
    for obj in (*CLUSTER, *names, *created(case)):
        apply(sandbox.store, Manifest(obj, "case"))
    sandbox.tick()
    kinds = (PODS, PERSISTENTVOLUMECLAIMS)
    pods, claims = ([one.obj for one in sandbox.store.list(kind, case.namespace)] for kind in kinds)
    return texts(pods, claims)


@pytest.mark.parametrize("seed", range(SAMPLE))
def test_sandbox_and_simulate_make_the_same_pods(seed: int):
    """The pods of the sandbox and of `simulate` are equal in every field that scheduling reads."""
    case = Case(seed)
    check(case, simulated(case)[1], sandboxed(case))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SAMPLE, ALL))
def test_sandbox_and_simulate_make_the_same_pods_of_all_cases(seed: int):
    """The remaining cases of the corpus agree as well."""
    case = Case(seed)
    check(case, simulated(case)[1], sandboxed(case))


@pytest.fixture(scope="module")
def cluster() -> Iterator[RealCluster]:
    """Give a control plane with kube-controller-manager, and the objects of the cluster."""
    with start_cluster(name="workloads") as found, start_kube_controller_manager(found):
        create(found, CLUSTER)
        yield found


def create(cluster: RealCluster, objects: Sequence[Any]) -> None:
    """Create objects by one call of kubectl."""
    body = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(body))


@pytest.mark.real
@pytest.mark.timeout(1200)
@pytest.mark.allow_blocking("files")
async def test_the_real_controllers_make_the_same_pods(cluster: RealCluster):
    """All cases agree with kube-apiserver and kube-controller-manager; each difference names its
    seed.
    """
    cases = [Case(seed) for seed in range(ALL)]
    names = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one.namespace}}
        for one in cases
    ]
    create(cluster, names)
    create(cluster, [obj for one in cases for obj in one.beside])
    create(cluster, [created(one)[-1] for one in cases])
    differences = []
    for case in cases:
        pods, ours = simulated(case)
        wanted = len(pods) if expected_pods(case) else min(len(pods), 1)

        async def are_there(case: Case = case, wanted: int = wanted) -> bool:
            return len(real(cluster, case)[0]) >= wanted

        try:
            await until(are_there, f"the pods of seed {case.seed}")
            check(case, ours, real(cluster, case))
        except AssertionError as error:
            differences.append(f"seed {case.seed}: {str(error)[:2000]}")
    assert [] == differences


def real(cluster: RealCluster, case: Case) -> Found:
    """Return the objects of a case in a real cluster."""
    path = f"/api/v1/namespaces/{case.namespace}"
    pods, claims = (
        cluster.request("GET", f"{path}/{kind}")[1]["items"]
        for kind in ("pods", "persistentvolumeclaims")
    )
    return texts(pods, claims)
