"""ResourceClaims of pods: made from templates, reserved while a pod needs them, released
afterwards.
"""

from scheduler.controlplane.claims import POD_CLAIM_NAME
from scheduler.sandbox.controllers.ephemeralvolumes import EphemeralVolumes
from scheduler.sandbox.controllers.resourceclaims import FINALIZER, ResourceClaims
from scheduler.sandbox.kinds.kinds import (
    EVENTS,
    PERSISTENTVOLUMECLAIMS,
    PODGROUPS,
    PODS,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    STORAGECLASSES,
)
from scheduler.sandbox.store.store import Deletion
from tests.unit.sandbox.cluster import Object, SimulatedCluster

TEMPLATE = """
metadata: {name: gpu}
spec:
  metadata: {labels: {team: a}, annotations: {note: b}}
  spec:
    devices:
      requests: [{name: r, exactly: {deviceClassName: gpu}}]
"""
CLAIM = """
metadata: {name: shared}
spec:
  devices:
    requests: [{name: r, exactly: {deviceClassName: gpu}}]
"""
POD = """
metadata: {name: NAME, annotations: {trellis.dev/simulate-run-for: RUN}}
spec:
  restartPolicy: Never
  containers: [{name: main, image: "train:1"}]
  resourceClaims: [{name: gpu, SOURCE}]
"""
FROM_TEMPLATE = "resourceClaimTemplateName: gpu"
SHARED = "resourceClaimName: shared"


def cluster(*, bind: bool = False) -> SimulatedCluster:
    return SimulatedCluster(actors=[ResourceClaims], bind=bind)


def pod(here: SimulatedCluster, source: str, name: str = "p", run: str = "10s") -> Object:
    text = POD.replace("NAME", name).replace("SOURCE", source).replace("RUN", run)
    return here.apply(PODS, text)


def claims(here: SimulatedCluster) -> list[Object]:
    return [stored.obj for stored in here.store.list(RESOURCECLAIMS, "default")]


def allocate(here: SimulatedCluster, name: str, *pods: Object) -> None:
    """Write the fields of a scheduler: the finalizer, an allocation, and its user."""
    stored = here.store.get(RESOURCECLAIMS, "default", name)
    meta = {**stored.obj["metadata"], "finalizers": [FINALIZER]}
    stored = here.store.update(RESOURCECLAIMS, {**stored.obj, "metadata": meta})
    result = {"request": "r", "driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}
    users = [
        {"resource": "pods", "name": p["metadata"]["name"], "uid": p["metadata"]["uid"]}
        for p in pods
    ]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": users}
    here.store.update(RESOURCECLAIMS, {**stored.obj, "status": status}, subresource="status")
    here.settle()


class TestTemplates:
    def test_a_pod_gets_its_claim(self):
        """The claim is owned by the pod, has the template's labels and annotations, and is in the
        pod's status.
        """
        here = cluster()
        here.apply(RESOURCECLAIMTEMPLATES, TEMPLATE)
        made = pod(here, FROM_TEMPLATE)

        (claim,) = claims(here)
        meta = claim["metadata"]
        assert meta["name"].startswith("p-gpu-")
        assert {"team": "a"} == meta["labels"]
        assert {"note": "b", POD_CLAIM_NAME: "gpu"} == meta["annotations"]
        (owner,) = meta["ownerReferences"]
        assert (made["metadata"]["uid"], True) == (owner["uid"], owner["controller"])
        assert 1 == claim["spec"]["devices"]["requests"][0]["exactly"]["count"]
        statuses = here.get(PODS, "p")["status"]["resourceClaimStatuses"]
        assert [{"name": "gpu", "resourceClaimName": meta["name"]}] == statuses

    def test_names_are_shortened_on_both_sides(self):
        """Pod and claim both stay recognizable in a name that would be too long."""
        here = cluster()
        here.apply(RESOURCECLAIMTEMPLATES, TEMPLATE)
        pod(here, FROM_TEMPLATE, name="x" * 80)

        name = claims(here)[0]["metadata"]["name"]
        assert len(name) <= 63
        assert "xxx-g" in name

    def test_a_missing_template_is_reported_and_waited_for(self):
        """The pod has a warning; the claim is made together with the template."""
        here = cluster()
        pod(here, FROM_TEMPLATE)

        assert not claims(here)
        (event,) = [s.obj for s in here.store.list(EVENTS, "default")]
        assert ("Warning", "FailedResourceClaimCreation") == (event["type"], event["reason"])
        assert (
            'PodResourceClaim gpu: resource claim template "gpu": '
            'resourceclaimtemplate.resource.k8s.io "gpu" not found' == event["message"]
        )
        here.apply(RESOURCECLAIMTEMPLATES, TEMPLATE)
        assert 1 == len(claims(here))

    def test_a_claim_that_was_deleted_comes_again(self):
        """The pod's status names the new claim."""
        here = cluster()
        here.apply(RESOURCECLAIMTEMPLATES, TEMPLATE)
        pod(here, FROM_TEMPLATE)
        first = claims(here)[0]["metadata"]["name"]
        here.store.delete(RESOURCECLAIMS, "default", first, Deletion())
        here.settle()

        (claim,) = claims(here)
        assert first != claim["metadata"]["name"]
        (status,) = here.get(PODS, "p")["status"]["resourceClaimStatuses"]
        assert claim["metadata"]["name"] == status["resourceClaimName"]

    def test_it_goes_with_its_pod(self):
        """A deleted pod's claim is collected, devices and all."""
        here = cluster()
        here.apply(RESOURCECLAIMTEMPLATES, TEMPLATE)
        made = pod(here, FROM_TEMPLATE)
        allocate(here, claims(here)[0]["metadata"]["name"], made)
        here.store.delete(PODS, "default", "p", Deletion(grace_period_s=0))
        here.tick(60)

        assert not claims(here)

    def test_it_goes_when_its_pod_has_finished(self):
        """The pod stays, its claim does not."""
        here = cluster(bind=True)
        here.apply(RESOURCECLAIMTEMPLATES, TEMPLATE)
        made = pod(here, FROM_TEMPLATE)
        allocate(here, claims(here)[0]["metadata"]["name"], made)
        here.tick(60)

        assert "Succeeded" == here.get(PODS, "p")["status"]["phase"]
        assert not claims(here)


class TestReservations:
    def test_a_finished_pod_releases_its_reservation(self):
        """The others keep the claim; with the last one the devices are free again."""
        here = cluster(bind=True)
        here.apply(RESOURCECLAIMS, CLAIM)
        short, long = pod(here, SHARED, "a", "10s"), pod(here, SHARED, "b", "100s")
        allocate(here, "shared", short, long)
        here.tick(50)

        status = here.get(RESOURCECLAIMS, "shared")["status"]
        assert ["b"] == [user["name"] for user in status["reservedFor"]]
        assert status["allocation"]
        here.tick(100)
        claim = here.get(RESOURCECLAIMS, "shared")
        assert {} == claim["status"]
        assert "finalizers" not in claim["metadata"]

    def test_a_pod_of_the_same_name_is_another(self):
        """A reservation is for a uid."""
        here = cluster()
        here.apply(RESOURCECLAIMS, CLAIM)
        first = pod(here, SHARED)
        here.store.delete(PODS, "default", "p", Deletion(grace_period_s=0))
        pod(here, SHARED)
        allocate(here, "shared", first)

        assert {} == here.get(RESOURCECLAIMS, "shared")["status"]

    def test_other_users_than_pods_are_left_alone(self):
        """The controller does not know their lifetime."""
        here = cluster()
        here.apply(RESOURCECLAIMS, CLAIM)
        allocate(here, "shared")
        stored = here.store.get(RESOURCECLAIMS, "default", "shared")
        user = {"apiGroup": "example.com", "resource": "jobs", "name": "j", "uid": "1"}
        status = {**stored.obj["status"], "reservedFor": [user]}
        here.store.update(RESOURCECLAIMS, {**stored.obj, "status": status}, subresource="status")
        here.settle()

        assert [user] == here.get(RESOURCECLAIMS, "shared")["status"]["reservedFor"]

    def test_a_deleted_claim_waits_for_its_users(self):
        """The claim is deleted after its last user."""
        here = cluster()
        here.apply(RESOURCECLAIMS, CLAIM)
        made = pod(here, SHARED)
        allocate(here, "shared", made)
        here.store.delete(RESOURCECLAIMS, "default", "shared", Deletion())
        here.settle()
        assert claims(here)

        here.store.delete(PODS, "default", "p", Deletion(grace_period_s=0))
        here.settle()
        assert not claims(here)


GROUP = """
metadata: {name: ring}
spec:
  schedulingPolicy: {basic: {}}
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
"""


class TestGroups:
    def test_a_group_gets_one_claim_for_all_of_its_pods(self):
        """One claim is created for all pods of a group, also if the template comes later. A pod
        with another claim name has its own.
        """
        here = cluster()
        here.apply(PODGROUPS, GROUP)
        for name, entry in (("one", "gpu"), ("two", "gpu"), ("other", "own")):
            text = POD.replace("NAME", name).replace("RUN", "10s").replace("SOURCE", FROM_TEMPLATE)
            text = text.replace("name: gpu,", f"name: {entry},")
            here.apply(PODS, text + "  schedulingGroup: {podGroupName: ring}\n")
        assert not claims(here)
        here.apply(RESOURCECLAIMTEMPLATES, TEMPLATE)

        group = here.store.get(PODGROUPS, "default", "ring")
        (entry,) = group.obj["status"]["resourceClaimStatuses"]
        found = {claim["metadata"]["name"]: claim for claim in claims(here)}
        owners = {
            name: claim["metadata"]["ownerReferences"][0]["name"] for name, claim in found.items()
        }
        assert {"ring", "other"} == set(owners.values())
        assert "ring" == owners[entry["resourceClaimName"]]
        assert 2 == len(found)

    def test_what_a_group_holds_is_freed_when_it_goes(self):
        """A pod that ends leaves the group's claim alone."""
        here = cluster(bind=True)
        here.apply(RESOURCECLAIMTEMPLATES, TEMPLATE)
        here.apply(PODGROUPS, GROUP)
        (claim,) = claims(here)
        group = here.store.get(PODGROUPS, "default", "ring")
        allocate(here, claim["metadata"]["name"])
        stored = here.store.get(RESOURCECLAIMS, "default", claim["metadata"]["name"])
        user = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "ring"}
        status = {**stored.obj["status"], "reservedFor": [user | {"uid": group.uid}]}
        here.store.update(RESOURCECLAIMS, {**stored.obj, "status": status}, subresource="status")
        here.settle()
        assert "allocation" in claims(here)[0]["status"]
        here.store.delete(PODGROUPS, "default", "ring", Deletion(grace_period_s=0))
        here.settle()

        assert not [one for one in claims(here) if "allocation" in one.get("status", {})]


def test_a_generic_ephemeral_volume_gets_its_claim():
    """The claim names the default StorageClass, and is deleted with its pod."""
    here = SimulatedCluster(actors=[EphemeralVolumes], bind=False)
    notes = {"storageclass.kubernetes.io/is-default-class": "true"}
    std = {"metadata": {"name": "std", "annotations": notes}, "provisioner": "d.example.com"}
    here.store.create(STORAGECLASSES, std)
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": asked}
    volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": template}}
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [volume]}
    here.store.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default")
    here.tick()

    claim = here.store.get(PERSISTENTVOLUMECLAIMS, "default", "p-v").obj
    assert "std" == claim["spec"]["storageClassName"]
    assert {"a": "b"} == claim["metadata"]["labels"]
    assert ["Pod"] == [owner["kind"] for owner in claim["metadata"]["ownerReferences"]]

    here.store.delete(PODS, "default", "p", Deletion())
    here.tick()
    assert here.store.find(PERSISTENTVOLUMECLAIMS, "default", "p-v") is None
