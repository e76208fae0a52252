"""Changes of Kubernetes 1.37 in filters and scores: own cases, computed from the facts of 1.37.2.

A case that names another release shows the former behaviour.
"""

from tests.vectors.test_kube_scheduler import run_plugin, run_requests

FOLDER = "kubernetes-1.37"


def run(vector):
    """Run a case on 1.37 unless it names a release."""
    run_plugin(vector, kubernetes=vector.case.get("kubernetes", "1.37"))


def run_sums(vector):
    """Run a case on the requests of a pod by the rules of 1.37."""
    run_requests(vector, sums_first=True)


RUNNERS = {
    "imagelocality.json": run,
    "interpodaffinity.json": run,
    "podrequests.json": run_sums,
    "storage-capacity-scoring.json": run,
    "volume-limit-scaling.json": run,
}


def test_case(vector):
    """Run one case and compare its expectation."""
    RUNNERS[vector.file](vector)
