"""The filter compared with a topology manager that was written from the kubelet's documentation.

Random nodes have random pods; the filter gets what an agent would publish about them. Each accepted
pod must be admitted, each rejected one refused. The one known difference is one-sided, and only for
single-numa-node: a Guaranteed container with a fraction of a CPU gets no exclusive CPUs from the
kubelet, while the filter compares its fraction like any amount, as its peer does.
"""

from random import Random

import pytest

from scheduler.objects.plain import read_pod
from scheduler.sandbox.nodes.alignment import Aligner, qos_of
from scheduler.testing.evaluate import look
from scheduler.testing.scene import Scene

NAME = "NodeResourceTopologyMatch"
MIB = 1024 * 1024
GPU, NIC, LICENCE = "example.com/gpu", "example.com/nic", "example.com/licence"
NODES = 50


def random_zones(source):
    """Return zones of one model, or of two, with devices in some of them."""
    count = source.choice([1, 2, 2, 4, 4, 8])
    cpus, memory = source.choice([4, 8, 16]), source.choice([8, 16]) * 1024 * MIB
    has_pages, has_nics = source.random() < 0.5, source.random() < 0.5
    gpus = source.sample(range(count), source.randint(0, count))
    zones = []
    for number in range(count):
        uneven = 1 if source.random() < 0.8 else 2
        zone = {"cpu": cpus * 1000 // uneven, "memory": memory * 1000}
        if has_pages:
            zone["hugepages-2Mi"] = source.choice([0, 64, 128]) * MIB * 1000
        if number in gpus:
            zone[GPU] = source.randint(1, 4) * 1000
        if has_nics:
            zone[NIC] = 4000
        zones.append(zone)
    return zones


def random_requests(source, kind):
    """Return the resources of one container."""
    if kind == "BestEffort":
        requests = {}
    else:
        fraction = source.random() < 0.15
        cpu = f"{source.randint(1, 40) * 100}m" if fraction else str(source.randint(1, 9))
        requests = {"cpu": cpu, "memory": f"{source.choice([256, 1024, 4096, 9000])}Mi"}
        if source.random() < 0.2:
            requests["hugepages-2Mi"] = f"{source.choice([0, 32, 64, 100])}Mi"
    for device in (GPU, NIC, LICENCE):
        if source.random() < 0.2:
            requests[device] = str(source.randint(0, 3))
    limits = dict(requests)
    if kind == "Burstable":
        limits.pop("cpu")
    return {"requests": requests, "limits": limits}


def random_pod(source, name, *, node=""):
    """Return a pod of any class, with init containers and sidecars."""
    kind = source.choice(["Guaranteed"] * 4 + ["Burstable", "BestEffort"])

    def container(number, **more):
        return {"name": f"c{number}", "resources": random_requests(source, kind), **more}

    init = [
        container(number, **({"restartPolicy": "Always"} if source.random() < 0.4 else {}))
        for number in range(source.choice([0, 0, 0, 1, 2]))
    ]
    apps = [container(len(init) + number) for number in range(source.choice([1, 1, 2, 3]))]
    spec = {"initContainers": init, "containers": apps, "schedulerName": "trellis"}
    if node:
        spec["nodeName"] = node
    return {"kind": "Pod", "metadata": {"namespace": "default", "name": name}, "spec": spec}


def random_machine(source, policy, scope):
    """Return a node's zones with pods in them."""
    aligner = Aligner(random_zones(source), policy, scope)
    for number in range(source.randint(0, 4)):
        aligner.admit(f"uid{number}", random_pod(source, f"p{number}"))
    return aligner


def published(name, aligner):
    """Return an agent's report of a node."""
    return {
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": aligner.policy},
            {"name": "topologyManagerScope", "value": aligner.scope},
        ],
        "zones": [
            {
                "name": f"node-{number}",
                "type": "Node",
                "resources": [
                    {
                        "name": resource,
                        "capacity": f"{amount}m",
                        "allocatable": f"{amount}m",
                        "available": f"{zone.free[resource]}m",
                    }
                    for resource, amount in zone.capacity.items()
                ],
            }
            for number, zone in enumerate(aligner.zones)
        ],
    }


def offers(aligner):
    """Return a node's total amounts; licences belong to no zone."""
    total = {LICENCE: 10_000_000}
    for zone in aligner.zones:
        for resource, amount in zone.capacity.items():
            total[resource] = total.get(resource, 0) + amount
    return {resource: f"{amount}m" for resource, amount in total.items()}


def wanted(pod):
    """Return the resources that a pod requests: a kubelet rejects those that its node lacks."""
    containers = [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]
    requests = [c["resources"]["requests"] for c in containers]
    return {name for one in requests for name, text in one.items() if text not in ("0", "0Mi")}


def has_fractions(pod):
    """Return whether a Guaranteed pod has a container with a fraction of a CPU."""
    containers = [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]
    return qos_of(pod) == "Guaranteed" and any(
        c["resources"]["requests"].get("cpu", "").endswith("00m") for c in containers
    )


def compare(policy, scope, pairs, seed):
    """Compare verdicts on this many pairs of pods and nodes; return (pairs, admitted,
    explained).
    """
    source = Random(seed)
    done = admitted = explained = 0
    while done < pairs:
        machines = {f"n{n}": random_machine(source, policy, scope) for n in range(NODES)}
        scene = Scene(NAME, {"policies": [policy]})
        nodes = [
            {"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": offers(one)}}
            for name, one in machines.items()
        ]
        scene.fill(nodes, (), (), [published(name, one) for name, one in machines.items()])
        for number in range(min(20, -(-(pairs - done) // NODES))):
            pod = random_pod(source, f"new{number}")
            verdicts = look(scene, scene.cycle(read_pod(pod))).filter
            for name, aligner in machines.items():
                takes = wanted(pod) <= set(offers(aligner)) and aligner.admit("new", pod)
                aligner.release("new")
                done += 1
                admitted += takes
                if takes == verdicts[name].is_success:
                    continue
                assert takes, f"{name} would refuse: {pod} on {published(name, aligner)}"
                assert policy == "single-numa-node"
                assert has_fractions(pod), f"{name} takes: {pod} on {published(name, aligner)}"
                explained += 1
    return done, admitted, explained


@pytest.mark.parametrize("scope", ["pod", "container"])
def test_a_pod_that_goes_gives_all_back(scope):
    """Zones have the same amounts before and after a pod, also if only its init container had
    requests.
    """
    gpus = {"example.com/gpu": "2"}
    aligner = Aligner([{"cpu": 8000, "example.com/gpu": 4000}], "single-numa-node", scope)
    step = {"name": "step", "resources": {"requests": gpus, "limits": gpus}}
    assert aligner.admit(
        "p", {"spec": {"initContainers": [step], "containers": [{"name": "main"}]}}
    )
    aligner.release("p")

    assert aligner.zones[0].capacity == aligner.zones[0].free


@pytest.mark.parametrize("scope", ["pod", "container"])
@pytest.mark.parametrize("policy", ["single-numa-node", "restricted"])
def test_the_filter_says_what_the_kubelet_would(policy, scope):
    """The filter and the topology manager agree, except for fractions of CPUs."""
    done, admitted, _ = compare(policy, scope, 1000, seed=7)

    assert 0.1 < admitted / done < 0.9


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scope", ["pod", "container"])
@pytest.mark.parametrize("policy", ["single-numa-node", "restricted"])
def test_the_filter_says_what_the_kubelet_would_at_length(policy, scope):
    """The filter and the topology manager agree on 20,000 pairs, except for fractions of CPUs."""
    done, admitted, explained = compare(policy, scope, 20_000, seed=11)
    print(f"{policy} {scope}: {done} pairs, {admitted} admitted, {explained} fractions")

    assert done >= 20_000
