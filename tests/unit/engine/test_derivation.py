"""Derived groups in the engine: requests of namespaces, and workloads that are seen after their
pods.
"""

from __future__ import annotations

from scheduler.config import load
from scheduler.engine.engine import Engine
from scheduler.engine.settings import engine_settings
from scheduler.framework.registry import Registry
from scheduler.intree import IN_TREE
from scheduler.objects.groups.jobs import RayCluster, RayClusterSpec, RayWorkerGroup
from scheduler.objects.meta import ObjectMeta
from scheduler.objects.workloads import Namespace, NamespaceAnnotations, NamespaceMeta
from tests.property.making import make_node, make_pod
from tests.property.model_api import KINDS
from tests.property.rig import Rig
from tests.unit.engine.test_application_gangs import placed, reason

ARGS = "{name: ClusterTopologyPlacementGroup, args: {deriveOnRequest: [RayCluster]}}"
CONFIG = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{{schedulerName: trellis, pluginConfig: [{ARGS}]}}]
"""
REGISTRY = Registry(IN_TREE)


def build() -> Engine:
    """Return an engine whose profile derives groups of RayClusters on request."""
    loaded = load(CONFIG, file="c.yaml", registry=REGISTRY)
    return Engine(loaded.profiles, REGISTRY, settings=engine_settings(loaded))


def rig_with(words: str, *pods: str, cpu: int = 2) -> Rig:
    """Return a rig with one node, a namespace with this annotation, and pods of the cluster r."""
    rig = Rig(build, (*KINDS, "Namespace", "RayCluster"))
    rig.api.put("Node", make_node("n0", cpu=cpu))
    request(rig, words)
    for name in pods:
        rig.api.put("Pod", make_pod(name, labels={"ray.io/cluster": "r"}))
    rig.calm()
    return rig


def request(rig: Rig, words: str) -> None:
    """Request groups in the namespace by this annotation."""
    annotations = NamespaceAnnotations(words)
    rig.api.put("Namespace", Namespace(NamespaceMeta("default", annotations=annotations)))


def cluster(rig: Rig, workers: int) -> None:
    """Create the RayCluster r with a head and `workers` workers."""
    spec = RayClusterSpec(worker_group_specs=(RayWorkerGroup(replicas=workers),))
    rig.api.put("RayCluster", RayCluster(ObjectMeta("r", "default", "uid-r"), spec))
    rig.calm()


def test_members_wait_for_a_workload_that_is_seen_after_them():
    """No member starts alone before; with the object the group starts as a whole."""
    rig = rig_with("RayCluster", "r-0", "r-1")
    assert not placed(rig)
    assert "no RayCluster describes the derived group raycluster-r" in reason(rig, "r-0")

    cluster(rig, workers=1)
    assert {"r-0", "r-1"} == set(placed(rig))


def test_a_workload_without_a_group_releases_the_pods_that_waited_for_it():
    """A RayCluster of a head alone: its pod is scheduled by itself."""
    rig = rig_with("RayCluster", "r-0")
    assert not placed(rig)

    cluster(rig, workers=0)
    assert {"r-0"} == set(placed(rig))


def test_pods_that_wait_follow_the_request_of_their_namespace():
    """Two of three started alone; with the request the third waits for its group, without it
    again for capacity alone.
    """
    rig = rig_with("", "r-0", "r-1", "r-2")
    cluster(rig, workers=3)
    assert 2 == len(placed(rig))
    (waits,) = {"r-0", "r-1", "r-2"} - set(placed(rig))
    assert "Insufficient cpu" in reason(rig, waits)

    request(rig, "RayCluster")
    rig.calm()
    assert "is not complete" in reason(rig, waits)
    request(rig, "")
    rig.calm()
    assert "Insufficient cpu" in reason(rig, waits)


def test_a_request_of_an_unknown_kind_is_reported():
    """Once per change of the annotation; the kinds beside it count."""
    rig = rig_with("RayCluster, Jobset", "r-0")

    assert [("Namespace", "default")] == rig.faults
    assert not placed(rig)
