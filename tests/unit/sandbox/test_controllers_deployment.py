"""Deployments and ReplicaSets make pods, replace them step by step, and report their progress."""

import json
from typing import Any

import pytest

from scheduler.controlplane import rollout
from scheduler.controlplane.rollout import Size
from scheduler.sandbox.controllers.workloads.deployment import REVISION, Deployments
from scheduler.sandbox.controllers.workloads.replicaset import ReplicaSets
from scheduler.sandbox.kinds.kinds import DEPLOYMENTS, EVENTS, NAMESPACES, PODS, REPLICASETS
from scheduler.sandbox.nodes.podlifecycle import SimulatedPace
from scheduler.sandbox.store.store import Deletion
from tests.unit.sandbox.cluster import Object, SimulatedCluster

DEPLOYMENT = """
metadata: {name: shop, labels: {app: shop}}
spec:
  replicas: 4
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
      - name: main
        image: shop:1
        resources: {requests: {cpu: 100m}}
"""
REPLICASET = DEPLOYMENT.replace("replicas: 4", "replicas: 3").replace("shop", "set")


def cluster(pace: SimulatedPace | None = None, **options: Any) -> SimulatedCluster:
    return SimulatedCluster(actors=[Deployments, ReplicaSets], pace=pace, **options)


def with_image(deployment: Object, image: str) -> Object:
    template = json.loads(json.dumps(deployment["spec"]["template"]))
    template["spec"]["containers"][0]["image"] = image
    return {"template": template}


def images(here: SimulatedCluster) -> dict[str, int]:
    found: dict[str, int] = {}
    for pod in here.pods():
        if "deletionTimestamp" not in pod["metadata"]:
            image = pod["spec"]["containers"][0]["image"]
            found[image] = found.get(image, 0) + 1
    return found


def condition(obj: Object, kind: str) -> Object:
    found: list[Object] = [c for c in obj["status"]["conditions"] if c["type"] == kind]
    assert len(found) == 1
    return found[0]


class TestReplicaSet:
    def test_it_makes_the_pods_it_asks_for(self):
        """Pods carry the template's labels, a generated name and a controller reference."""
        here = cluster()
        here.apply(REPLICASETS, REPLICASET)

        assert 3 == len(here.pods())
        for pod in here.pods():
            assert pod["metadata"]["name"].startswith("set-")
            assert {"app": "set"} == pod["metadata"]["labels"]
            (owner,) = pod["metadata"]["ownerReferences"]
            assert ("ReplicaSet", "set", True) == (
                owner["kind"],
                owner["name"],
                owner["controller"],
            )
        status = here.get(REPLICASETS, "set")["status"]
        assert (3, 3, 3, 3) == tuple(
            status[name]
            for name in ("replicas", "readyReplicas", "availableReplicas", "fullyLabeledReplicas")
        )

    def test_pods_share_nothing_with_the_template(self):
        """Fields that admission adds to a pod do not leak into the ReplicaSet's template."""
        here = cluster()
        here.apply(REPLICASETS, REPLICASET)

        assert "priority" not in here.get(REPLICASETS, "set")["spec"]["template"]["spec"]

    def test_a_lost_pod_is_replaced(self):
        """A deleted pod is replaced while it still stops."""
        here = cluster()
        here.apply(REPLICASETS, REPLICASET)
        here.store.delete(PODS, "default", here.names()[0])
        here.settle()
        assert 4 == len(here.pods())
        assert 1 == here.get(REPLICASETS, "set")["status"]["terminatingReplicas"]

        here.tick(1.0)

        assert 3 == len(here.pods())
        assert 0 == here.get(REPLICASETS, "set")["status"]["terminatingReplicas"]

    def test_scaling_down_takes_what_does_least(self):
        """Unbound pods are deleted before those that run."""
        here = cluster(bind=False)
        here.apply(REPLICASETS, REPLICASET)
        kept = here.pods()[1]
        here.place(kept, "node-0")
        here.settle()

        here.edit(REPLICASETS, "set", replicas=1)
        here.settle()

        assert [kept["metadata"]["name"]] == here.names()

    def test_the_deletion_cost_counts(self):
        """Among equal pods the cheapest is deleted first."""
        here = cluster(SimulatedPace(stop_s=0.0))
        here.apply(REPLICASETS, REPLICASET)
        for number, pod in enumerate(here.pods()):
            notes = {"controller.kubernetes.io/pod-deletion-cost": str(-number)}
            meta = {**pod["metadata"], "annotations": notes}
            here.store.update(PODS, {**pod, "metadata": meta})
        first = here.names()[0]

        here.edit(REPLICASETS, "set", replicas=1)
        here.settle()

        assert [first] == here.names()

    def test_min_ready_seconds_delay_availability(self):
        """A pod is available only after it has been ready for this time."""
        here = cluster()
        here.apply(
            REPLICASETS, REPLICASET.replace("replicas: 3", "replicas: 3\n  minReadySeconds: 10")
        )
        assert 0 == here.get(REPLICASETS, "set")["status"]["availableReplicas"]

        here.tick(10.0)

        assert 3 == here.get(REPLICASETS, "set")["status"]["availableReplicas"]

    def test_a_refused_pod_is_reported_and_tried_again(self):
        """A pod that admission refuses shows as ReplicaFailure and event, and is made later."""
        here = cluster()
        here.apply(
            REPLICASETS, REPLICASET.replace("    spec:", "    spec:\n      priorityClassName: high")
        )
        status = here.get(REPLICASETS, "set")["status"]
        assert "no PriorityClass with name high was found" in status["conditions"][0]["message"]
        assert ["FailedCreate"] == [s.obj["reason"] for s in here.store.list(EVENTS)]

        from scheduler.sandbox.kinds.kinds import PRIORITYCLASSES

        here.apply(PRIORITYCLASSES, "{metadata: {name: high}, value: 5}", "")
        here.tick(120.0)

        assert 3 == len(here.pods())
        assert "conditions" not in here.get(REPLICASETS, "set")["status"]

    def test_orphans_are_adopted_and_foreign_pods_released(self):
        """A matching pod without controller is adopted.

        A relabelled pod is released and replaced.
        """
        here = cluster()
        here.apply(
            PODS,
            "{metadata: {name: old, labels: {app: set}}, spec: {containers: [{name: a, image: "
            "b}]}}",
        )
        here.apply(REPLICASETS, REPLICASET)
        assert 3 == len(here.pods())
        assert "set" == here.get(PODS, "old")["metadata"]["ownerReferences"][0]["name"]

        pod = here.get(PODS, "old")
        meta = {**pod["metadata"], "labels": {"app": "debug"}}
        here.store.update(PODS, {**pod, "metadata": meta})
        here.settle()

        assert 4 == len(here.pods())
        assert "ownerReferences" not in here.get(PODS, "old")["metadata"]

    def test_deleting_it_deletes_its_pods(self):
        """The garbage collector deletes the pods of a deleted set, and none is made anew."""
        here = cluster()
        here.apply(REPLICASETS, REPLICASET)
        here.store.delete(REPLICASETS, "default", "set")
        here.tick(2.0)

        assert [] == here.pods()

    def test_orphaning_leaves_its_pods(self):
        """Deletion with orphan propagation leaves the pods alone."""
        here = cluster()
        here.apply(REPLICASETS, REPLICASET)
        here.store.delete(REPLICASETS, "default", "set", Deletion(propagation="Orphan"))
        here.tick(2.0)

        assert 3 == len(here.pods())
        assert all("ownerReferences" not in pod["metadata"] for pod in here.pods())

    def test_a_namespace_that_goes_away_gets_no_new_pods(self):
        """No pod is made in a namespace that is being deleted."""
        here = cluster()
        here.apply(NAMESPACES, "metadata: {name: gone}", "")
        here.apply(REPLICASETS, REPLICASET, "gone")
        assert 3 == len(here.pods("gone"))

        here.store.delete(NAMESPACES, "", "gone")
        here.tick(5.0)

        assert here.store.find(NAMESPACES, "", "gone") is None


class TestDeployment:
    def test_it_rolls_out(self):
        """A new Deployment becomes complete with one ReplicaSet of revision 1."""
        here = cluster()
        here.apply(DEPLOYMENTS, DEPLOYMENT)

        deployment = here.get(DEPLOYMENTS, "shop")
        status = deployment["status"]
        assert (4, 4, 4, 4) == tuple(
            status[name]
            for name in ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        )
        assert "unavailableReplicas" not in status
        assert "NewReplicaSetAvailable" == condition(deployment, "Progressing")["reason"]
        assert "True" == condition(deployment, "Available")["status"]
        assert "1" == deployment["metadata"]["annotations"][REVISION]
        (stored,) = here.store.list(REPLICASETS)
        label = stored.obj["metadata"]["labels"]["pod-template-hash"]
        assert f"shop-{label}" == stored.name
        assert label == stored.obj["spec"]["selector"]["matchLabels"]["pod-template-hash"]
        assert all(label == p["metadata"]["labels"]["pod-template-hash"] for p in here.pods())

    def test_it_goes_quiet(self):
        """A complete Deployment causes no more writes."""
        here = cluster()
        here.apply(DEPLOYMENTS, DEPLOYMENT)
        version = here.store.version
        here.turns.tick()

        assert version == here.store.version

    def test_an_update_keeps_within_surge_and_unavailability(self):
        """A rolling update never has more than 5 pods nor fewer than 3 available of 4 (25 %)."""
        here = cluster(SimulatedPace(start_s=1.0))
        here.apply(DEPLOYMENTS, DEPLOYMENT)
        here.tick(2.0)
        here.edit(DEPLOYMENTS, "shop", **with_image(here.get(DEPLOYMENTS, "shop"), "shop:2"))

        seen = []
        for _ in range(40):
            here.tick(0.25)
            live = images(here)
            ready = sum(
                s.obj["status"].get("availableReplicas", 0) for s in here.store.list(REPLICASETS)
            )
            seen.append((sum(live.values()), ready))

        assert {"shop:2": 4} == images(here)
        assert max(total for total, _ in seen) == 5
        assert min(ready for _, ready in seen) == 3
        assert "2" == here.get(DEPLOYMENTS, "shop")["metadata"]["annotations"][REVISION]
        assert [0, 4] == sorted(s.obj["spec"]["replicas"] for s in here.store.list(REPLICASETS))

    def test_going_back_reuses_the_old_set(self):
        """The template of a past revision brings its ReplicaSet back under a new revision
        number.
        """
        here = cluster()
        first = here.apply(DEPLOYMENTS, DEPLOYMENT)
        old = here.store.list(REPLICASETS)[0].name
        here.edit(DEPLOYMENTS, "shop", **with_image(first, "shop:2"))
        here.tick(5.0)
        here.edit(DEPLOYMENTS, "shop", **with_image(first, "shop:1"))
        here.tick(5.0)

        assert {"shop:1": 4} == images(here)
        assert 2 == len(here.store.list(REPLICASETS))
        notes = here.get(REPLICASETS, old)["metadata"]["annotations"]
        assert ("3", "1") == (notes[REVISION], notes["deployment.kubernetes.io/revision-history"])

    def test_recreate_waits_until_all_old_pods_are_gone(self):
        """With Recreate old and new pods never run together."""
        here = cluster()
        text = DEPLOYMENT.replace("replicas: 4", "replicas: 4\n  strategy: {type: Recreate}")
        first = here.apply(DEPLOYMENTS, text)
        here.edit(DEPLOYMENTS, "shop", **with_image(first, "shop:2"))
        here.settle()
        assert {} == images(here)

        here.tick(1.0)

        assert {"shop:2": 4} == images(here)

    def test_scaling(self):
        """Changed replicas reach the ReplicaSet, up, down and to zero."""
        here = cluster()
        here.apply(DEPLOYMENTS, DEPLOYMENT)
        for wanted in (7, 2, 0, 3):
            here.edit(DEPLOYMENTS, "shop", replicas=wanted)
            here.tick(2.0)
            assert wanted == len(here.pods())
            assert wanted == here.get(DEPLOYMENTS, "shop")["status"].get("readyReplicas", 0)

    def test_scaling_during_a_rollout_is_dealt_over_both_sets(self):
        """Replicas added while an update is stuck go to old and new in proportion."""
        here = cluster()
        first = here.apply(DEPLOYMENTS, DEPLOYMENT.replace("replicas: 4", "replicas: 10"))
        stuck = with_image(first, "shop:2")
        stuck["template"]["metadata"]["annotations"] = {"trellis.dev/simulate-ready-after": "never"}
        here.edit(DEPLOYMENTS, "shop", **stuck)
        here.tick(5.0)
        before = images(here)
        assert {"shop:1": 8, "shop:2": 5} == before

        here.edit(DEPLOYMENTS, "shop", replicas=20)
        here.tick(5.0)

        after = images(here)
        assert 25 == sum(after.values())
        assert after["shop:1"] > before["shop:1"]
        assert after["shop:2"] > before["shop:2"]

    def test_paused_nothing_rolls_out(self):
        """A paused Deployment scales but does not update; resumed it does."""
        here = cluster()
        first = here.apply(DEPLOYMENTS, DEPLOYMENT)
        here.edit(DEPLOYMENTS, "shop", paused=True, replicas=5, **with_image(first, "shop:2"))
        here.tick(2.0)
        assert {"shop:1": 5} == images(here)
        found = condition(here.get(DEPLOYMENTS, "shop"), "Progressing")
        assert ("Unknown", "DeploymentPaused") == (found["status"], found["reason"])

        here.edit(DEPLOYMENTS, "shop", paused=False)
        here.tick(5.0)

        assert {"shop:2": 5} == images(here)

    def test_a_rollout_without_progress_is_called_failed(self):
        """After progressDeadlineSeconds the Progressing condition turns False."""
        here = cluster()
        first = here.apply(DEPLOYMENTS, DEPLOYMENT)
        stuck = with_image(first, "shop:2")
        stuck["template"]["metadata"]["annotations"] = {"trellis.dev/simulate-ready-after": "never"}
        here.edit(DEPLOYMENTS, "shop", progressDeadlineSeconds=30, **stuck)
        here.tick(20.0)
        assert "True" == condition(here.get(DEPLOYMENTS, "shop"), "Progressing")["status"]

        here.tick(20.0)

        found = condition(here.get(DEPLOYMENTS, "shop"), "Progressing")
        assert ("False", "ProgressDeadlineExceeded") == (found["status"], found["reason"])

    def test_old_revisions_are_kept_up_to_the_limit(self):
        """No more than revisionHistoryLimit empty ReplicaSets remain, the youngest."""
        here = cluster()
        text = DEPLOYMENT.replace("replicas: 4", "replicas: 2\n  revisionHistoryLimit: 2")
        first = here.apply(DEPLOYMENTS, text)
        for number in range(2, 7):
            here.edit(DEPLOYMENTS, "shop", **with_image(first, f"shop:{number}"))
            here.tick(5.0)

        found = [s.obj["metadata"]["annotations"][REVISION] for s in here.store.list(REPLICASETS)]
        assert ["4", "5", "6"] == sorted(found)

    def test_deleting_it_deletes_everything(self):
        """Background deletion takes ReplicaSets and pods along."""
        here = cluster()
        here.apply(DEPLOYMENTS, DEPLOYMENT)
        here.store.delete(DEPLOYMENTS, "default", "shop", Deletion(propagation="Background"))
        here.tick(2.0)

        assert ([], []) == (here.pods(), list(here.store.list(REPLICASETS)))

    def test_foreground_deletion_waits_for_the_pods(self):
        """With foreground deletion the Deployment is deleted last."""
        here = cluster()
        here.apply(DEPLOYMENTS, DEPLOYMENT)
        here.store.delete(DEPLOYMENTS, "default", "shop", Deletion(propagation="Foreground"))
        here.settle()
        assert here.store.find(DEPLOYMENTS, "default", "shop") is not None

        here.tick(2.0)

        assert [] == here.pods()
        assert here.store.find(DEPLOYMENTS, "default", "shop") is None


class TestArithmetic:
    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            ({"replicas": 10}, (3, 2)),
            ({"replicas": 1}, (1, 0)),
            ({"replicas": 4, "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
                (0, 1)),
            ({"replicas": 2, "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 5}}},
                (1, 2)),
            ({"replicas": 5, "strategy": {"type": "Recreate"}}, (0, 5)),
        ],
    )  # fmt: skip
    def test_limits(self, spec, expected):
        """Surge rounds up, unavailability down, and one of them is at least one."""
        assert expected == rollout.limits(spec)

    def test_unavailable_old_pods_go_first(self):
        """Pods of an old set that are not available cost nothing."""
        old = [Size("a", 3, 0), Size("b", 5, 5)]

        assert {"a": 0, "b": 3} == rollout.shrunk(old, Size("n", 2, 2), 8, 3)

    def test_a_scale_loses_no_replica(self):
        """Shares add up to the allowed number, whatever the rounding."""
        sizes = [Size("a", 5, 0), Size("b", 3, 0), Size("c", 2, 0)]
        for allowed in range(41):
            found = {size.name: size.replicas for size in sizes} | rollout.scaled(
                sizes, 10, allowed
            )
            assert allowed == sum(found.values())
