"""Jobs run pods to completion and count them once."""

from scheduler.sandbox.controllers.workloads.job import Jobs, written_indexes
from scheduler.sandbox.kinds.kinds import JOBS, POD_GROUPS_1_37, PODS, WORKLOADS
from scheduler.sandbox.store.store import Deletion
from tests.unit.sandbox.cluster import Object, SimulatedCluster

JOB = """
metadata: {name: sum}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "sum:1"}]
"""


def job(spec: str = "", run: str = "", code: str = "") -> str:
    notes = []
    if run:
        notes.append(f"trellis.dev/simulate-run-for: {run}")
    if code:
        notes.append(f'trellis.dev/simulate-exit-code: "{code}"')
    text = JOB.replace(
        "    spec:", f"    metadata: {{annotations: {{{', '.join(notes)}}}}}\n    spec:"
    )
    return text + "".join(f"  {line.strip()}\n" for line in spec.split(";") if line)


def ended(here: SimulatedCluster) -> Object | None:
    for condition in here.get(JOBS, "sum")["status"].get("conditions") or ():
        if condition["type"] in ("Complete", "Failed"):
            found: Object = condition
            return found
    return None


class TestJob:
    def test_it_completes(self):
        """One pod runs for its short default time; then the job is complete."""
        here = SimulatedCluster(actors=[Jobs])
        here.apply(JOBS, JOB)
        assert 1 == here.get(JOBS, "sum")["status"]["active"]

        here.tick(2.0)

        status = here.get(JOBS, "sum")["status"]
        assert 1 == status["succeeded"]
        assert "active" not in status
        assert ["SuccessCriteriaMet", "Complete"] == [c["type"] for c in status["conditions"]]
        assert "2023-11-14T22:13:21Z" == status["completionTime"]
        assert ["Succeeded"] == here.phases()

    def test_parallelism_and_completions(self):
        """At most `parallelism` pods run at once, and `completions` in all."""
        here = SimulatedCluster(actors=[Jobs])
        here.apply(JOBS, job("parallelism: 2;completions: 5"))
        most = 0
        for _ in range(20):
            here.tick(0.5)
            most = max(most, here.phases().count("Running"))

        assert 2 == most
        assert ["Succeeded"] * 5 == here.phases()
        assert 5 == here.get(JOBS, "sum")["status"]["succeeded"]

    def test_a_smaller_job_deletes_waiting_pods_first(self):
        """When parallelism is reduced, pods without a node are deleted first."""
        here = SimulatedCluster(actors=[Jobs], bind=False)
        here.apply(JOBS, job("parallelism: 3;completions: 5"))
        kept = here.pods()[-1]
        here.place(kept, "n0")

        here.edit(JOBS, "sum", parallelism=1)
        here.tick()

        assert [kept["metadata"]["name"]] == here.names()

    def test_indexes(self):
        """Indexed pods carry their index, and the status lists the completed ones."""
        here = SimulatedCluster(actors=[Jobs])
        here.apply(JOBS, job("parallelism: 3;completions: 3;completionMode: Indexed"))
        key = "batch.kubernetes.io/job-completion-index"
        assert ["0", "1", "2"] == [pod["metadata"]["annotations"][key] for pod in here.pods()]
        assert ["sum-0", "sum-1", "sum-2"] == [pod["spec"]["hostname"] for pod in here.pods()]

        here.tick(2.0)

        assert "0-2" == here.get(JOBS, "sum")["status"]["completedIndexes"]
        assert "0,2-4,9" == written_indexes({4, 0, 2, 3, 9})

    def test_failures_are_tried_again_with_a_pause_up_to_the_limit(self):
        """Pauses of 10, 20 … seconds lie between tries; past the limit the job has failed."""
        here = SimulatedCluster(actors=[Jobs])
        here.apply(JOBS, job("backoffLimit: 2", run="1s", code="1"))
        here.tick(5.0)
        assert 1 == len(here.pods())

        here.tick(60.0)

        found = ended(here)
        assert found is not None
        assert ("Failed", "BackoffLimitExceeded") == (found["type"], found["reason"])
        assert ["Failed"] * 3 == here.phases()
        assert 3 == here.get(JOBS, "sum")["status"]["failed"]

    def test_an_evicted_pod_is_replaced_and_counted(self):
        """A pod deleted from outside counts as failed, and another takes its place."""
        here = SimulatedCluster(actors=[Jobs])
        here.apply(JOBS, job(run="1h"))
        here.store.delete(PODS, "default", here.names()[0], Deletion(grace_period_s=0))
        here.settle()

        status = here.get(JOBS, "sum")["status"]
        assert 1 == status["failed"]
        assert 1 == len(here.pods())

    def test_suspended_it_runs_nothing(self):
        """A suspension deletes the pods without counting them; a resumption makes them anew."""
        here = SimulatedCluster(actors=[Jobs])
        here.apply(JOBS, job(run="1h"))
        here.edit(JOBS, "sum", suspend=True)
        here.tick(2.0)
        status = here.get(JOBS, "sum")["status"]
        assert [] == here.pods()
        assert "failed" not in status
        assert ("Suspended", "True") == tuple(
            status["conditions"][0][n] for n in ("type", "status")
        )

        here.edit(JOBS, "sum", suspend=False)
        here.tick(2.0)

        assert ["Running"] == here.phases()

    def test_the_deadline_ends_it(self):
        """After activeDeadlineSeconds the pods are deleted and the job has failed."""
        here = SimulatedCluster(actors=[Jobs])
        here.apply(JOBS, job("activeDeadlineSeconds: 30", run="1h"))
        here.tick(29.0)
        assert ended(here) is None

        here.tick(3.0)

        found = ended(here)
        assert found is not None
        assert "DeadlineExceeded" == found["reason"]
        assert [] == here.pods()

    def test_it_goes_when_its_time_to_live_is_over(self):
        """A finished job with ttlSecondsAfterFinished is deleted with its pods."""
        here = SimulatedCluster(actors=[Jobs])
        here.apply(JOBS, job("ttlSecondsAfterFinished: 10"))
        here.tick(5.0)
        assert ended(here) is not None

        here.tick(10.0)

        assert here.store.find(JOBS, "default", "sum") is None
        assert [] == here.pods()

    def test_a_work_queue_is_complete_when_no_pod_is_left(self):
        """Without completions the job is complete when one pod succeeded and none is left."""
        here = SimulatedCluster(actors=[Jobs])
        here.apply(JOBS, job("parallelism: 3"))
        here.tick(3.0)

        found = ended(here)
        assert found is not None
        assert "Complete" == found["type"]
        assert 3 == here.get(JOBS, "sum")["status"]["succeeded"]


class TestGroups:
    """Groups that a Job of Kubernetes 1.37 requests for its scheduling."""

    GANG = "parallelism: 2;completions: 4;scheduling: {schedulingPolicy: {gang: {}}}"

    def test_its_pods_name_a_group_that_needs_them_all(self):
        """A Job has one group for all of its pods, whose size follows the Job and which is deleted
        with it.
        """
        here = SimulatedCluster(actors=[Jobs], release="1.37")
        here.apply(JOBS, job(self.GANG))
        (group,) = here.store.list(POD_GROUPS_1_37)
        assert {"gang": {"minCount": 2}} == group.obj["spec"]["schedulingPolicy"]
        (workload,) = here.store.list(WORKLOADS)
        assert workload.name == group.obj["spec"]["workloadRef"]["workloadName"]

        here.edit(JOBS, "sum", parallelism=3)
        here.tick()
        (group,) = here.store.list(POD_GROUPS_1_37)
        assert {"gang": {"minCount": 3}} == group.obj["spec"]["schedulingPolicy"]
        assert {group.name} == {
            pod["spec"]["schedulingGroup"]["podGroupName"] for pod in here.pods()
        }
        here.edit(JOBS, "sum", parallelism=2)
        here.tick()
        (group,) = here.store.list(POD_GROUPS_1_37)
        assert {"gang": {"minCount": 2}} == group.obj["spec"]["schedulingPolicy"]
        here.tick(60.0)
        assert 4 == here.get(JOBS, "sum")["status"]["succeeded"]

        here.store.delete(JOBS, "default", "sum", Deletion(propagation="Background"))
        here.tick(60.0)
        assert not here.store.list(POD_GROUPS_1_37)
        assert not here.store.list(WORKLOADS)

    def test_others_have_none(self):
        """A Job without a request, one with a group of its own, and one of an older release have no
        PodGroup.
        """
        own = job(self.GANG).replace(
            "    spec:", "    spec:\n      schedulingGroup: {podGroupName: g}"
        )
        for text, release in ((job(), "1.37"), (own, "1.37"), (job(self.GANG), "1.36")):
            here = SimulatedCluster(actors=[Jobs], release=release)
            here.apply(JOBS, text)
            assert [] == here.store.list(POD_GROUPS_1_37)
            assert here.pods()
