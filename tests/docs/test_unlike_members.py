"""The worked example of a head and its workers comes out as its page says."""

import yaml

from scheduler.testing import node
from tests.docs.pages import blocks
from tests.unit.whatif.asking import place, pod, results

PAGE = "howto/unlike-members.md"
RACK = "topology.trellis.dev/rack"


def pods(job):
    """Return the pods that a Job would have."""
    template, name = job["spec"]["template"], job["metadata"]["name"]
    (container,) = template["spec"]["containers"]
    return [
        pod(
            f"{name}-{number}",
            labels=template["metadata"]["labels"],
            requests=container["resources"]["requests"],
            spec={"priority": 0},
        )
        for number in range(job["spec"].get("parallelism", 1))
    ]


def test_the_ray_cluster_stands_as_it_says():
    """Three workers in each of two racks; the head is where the first of them is."""
    shown = next(block.text for block in blocks(PAGE, "yaml"))
    group, *jobs = yaml.safe_load_all(shown)
    nodes = [
        node(f"n{at}", cpu="4", memory="8Gi", pods="110", labels={RACK: f"r{at % 3}"})
        for at in range(12)
    ]
    done = place(*nodes, group, *(one for job in jobs for one in pods(job)))

    where = {name: f"r{int(at[1:]) % 3}" for name, at in results(done).items()}
    workers = [rack for name, rack in where.items() if "worker" in name]
    assert [3, 3] == sorted(workers.count(rack) for rack in set(workers))
    assert where["ray-head-0"] == where["ray-worker-0"]
    (told,) = done.groups
    assert told.optimal
    assert "cost" in told.terms
    assert told.objective == told.bound
