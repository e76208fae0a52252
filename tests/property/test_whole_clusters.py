"""The default profile in a cluster with every kind of exhaustible resource.

After every change: no node exceeds any resource, port, disk, claim or attached volume; each tried
pod precedes all waiting ones; and, long before the flush of unschedulable pods, no pod waits that
would fit.
"""

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.engine.attempt.attempt import decide
from scheduler.engine.decision import Decision
from scheduler.engine.queue.pod import QueuedPod, Where
from scheduler.engine.queue.queues import LONGEST_UNSCHEDULABLE_S
from scheduler.testing import Scenario, node, pod
from tests.property.truth import Truth

ZONE = "topology.kubernetes.io/zone"
NODES = ("n0", "n1", "n2")
# Back-off ends after ten seconds at most; the flush is far away.
SHORT_S = 20.0
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: "
# The provisioner names the driver: as in kube-scheduler, limits count an unbound claim by it.
LATE = {
    "kind": "StorageClass",
    "metadata": {"name": "late"},
    "provisioner": "csi.example",
    "volumeBindingMode": "WaitForFirstConsumer",
}


class Lifecycle:
    """A seeded run of random changes of pods, nodes, volumes and claims."""

    def __init__(self, seed: int, without: str = "") -> None:
        self.random = Random(seed)
        disabled = f"[{{name: {without}}}]" if without else "[]"
        self.scenario = Scenario(
            LATE, config=f"{HEAD}[{{plugins: {{multiPoint: {{disabled: {disabled}}}}}}}]"
        )
        self.engine = self.scenario._engine
        self.made = 0
        self.sizes: dict[str, int] = {}
        self.scenario._engine.observation.on_decision = self._in_order
        for name in NODES[: self.random.randint(1, 3)]:
            self._node(name)
        for number in range(3):
            self._volume(number)
            self._claim(number)

    def step(self) -> None:
        """Cause one random event, and advance the time a little; then all invariants must hold."""
        {0: self._any_node, 1: self._any_claim, 2: self._end_one, 3: self._end_one}.get(
            self.random.randrange(9), self._create
        )()
        if self.random.random() < 0.5:
            self.scenario.run()
            self._check()
            return
        self.scenario.advance(SHORT_S)
        self._check()
        self._check_no_pod_sleeps()

    # Events.

    def _create(self) -> None:
        random, self.made = self.random, self.made + 1
        spec: dict[str, Any] = {"priority": random.choice([0, 0, 0, 5])}
        if random.random() < 0.2:
            spec["nodeSelector"] = {ZONE: random.choice("ab")}
        if random.random() < 0.4:
            spec["volumes"] = [self._source()]
        if random.random() < 0.3:
            spec["affinity"] = self._apart()
        amounts = {"cpu": random.choice(["500m", 1, 2]), "memory": random.choice(["1Gi", "3Gi"])}
        if random.random() < 0.3:
            amounts["example.com/gpu"] = 1
        ports = [random.choice([80, 81])] if random.random() < 0.3 else []
        made = pod(
            f"p{self.made}",
            labels={"app": random.choice("xy")},
            requests=amounts,
            host_ports=ports,
            spec=spec,
        )
        if random.random() < 0.2:
            first = {"name": "first", "resources": {"requests": {"cpu": 3}}}
            made["spec"]["initContainers"] = [first]
        self.scenario.apply(made)

    def _source(self) -> dict[str, Any]:
        random = self.random
        if random.random() < 0.3:
            disk = {"pdName": "disk", "readOnly": random.random() < 0.3}
            return {"name": "v", "gcePersistentDisk": disk}
        claim = {"claimName": f"c{random.randrange(4)}"}
        return {"name": "v", "persistentVolumeClaim": claim}

    def _apart(self) -> dict[str, Any]:
        selector = {"matchLabels": {"app": self.random.choice("xy")}}
        term = {"topologyKey": self.random.choice([ZONE, "kubernetes.io/hostname"])}
        kind = self.random.choice(["podAntiAffinity", "podAffinity"])
        rule = "requiredDuringSchedulingIgnoredDuringExecution"
        return {kind: {rule: [term | {"labelSelector": selector}]}}

    def _any_node(self) -> None:
        self._node(self.random.choice(NODES))

    def _node(self, name: str) -> None:
        """Add a node or change it; it never shrinks, because a resulting overcommitment would be no
        fault.
        """
        random = self.random
        size = self.sizes[name] = self.sizes.get(name, random.choice([2, 4])) + random.choice(
            [0, 1]
        )
        labels = {ZONE: "ab"[int(name[1]) % 2], "kubernetes.io/hostname": name}
        offers = {"example.com/gpu": size // 2, "ephemeral-storage": "10Gi"}
        self.scenario.apply(
            node(
                name,
                cpu=str(size),
                memory=f"{2 * size}Gi",
                pods=str(size),
                allocatable=offers,
                labels=labels,
                unschedulable=random.random() < 0.2,
            )
        )
        drivers = [{"name": "csi.example", "allocatable": {"count": 1}}]
        self.scenario.apply(
            {"kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": drivers}}
        )

    def _volume(self, number: int) -> None:
        terms = [
            {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["ab"[number % 2]]}]}
        ]
        spec: dict[str, Any] = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
            "storageClassName": "late",
            "csi": {"driver": "csi.example", "volumeHandle": f"h{number}"},
        }
        if number == 0:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        self.scenario.apply(
            {
                "kind": "PersistentVolume",
                "metadata": {"name": f"v{number}"},
                "spec": spec,
                "status": {"phase": "Available"},
            }
        )

    def _any_claim(self) -> None:
        """Create the last claim, which pods may have been waiting for."""
        if "default/c3" not in self.scenario.handle.objects("PersistentVolumeClaim"):
            self._claim(3)
            self._volume(3)

    def _claim(self, number: int) -> None:
        mode = "ReadWriteOncePod" if number % 2 else "ReadWriteOnce"
        spec = {
            "accessModes": [mode],
            "storageClassName": "late",
            "resources": {"requests": {"storage": "1Gi"}},
        }
        meta = {"name": f"c{number}", "namespace": "default", "uid": f"c{number}"}
        self.scenario.apply({"kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec})

    def _end_one(self) -> None:
        names = [one.metadata.name for one in self.scenario._cluster._pods.values()]
        if names:
            self.scenario.delete("Pod", self.random.choice(names))

    # Invariants.

    def _check(self) -> None:
        store = self.engine.cluster.store
        truth = Truth(
            [one for one in self.engine.cluster.table.nodes if one is not None],
            self.scenario._cluster._pods.values(),
            store.of("PersistentVolumeClaim"),
            store.of("PersistentVolume"),
            store.of("CSINode"),
        )
        assert [] == truth.faults()
        assert [] == self.scenario.faults

    def _check_no_pod_sleeps(self) -> None:
        assert SHORT_S < LONGEST_UNSCHEDULABLE_S
        for queued in list(self.engine.queues):
            if queued.where is Where.UNSCHEDULABLE:
                decision = decide(self.engine.attempt(queued.pod, self.scenario.now))
                assert not decision.fits, f"{queued.pod.key} would fit and is not tried"

    def _in_order(self, tried: QueuedPod, _decision: Decision) -> None:
        for other in self.engine.queues:
            if other.where is Where.ACTIVE:
                earlier = (-other.priority, other.queued_at) < (-tried.priority, tried.queued_at)
                assert not earlier, f"{tried.pod.key} was tried before {other.pod.key}"


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_nothing_is_used_twice_and_no_pod_is_forgotten(seed: int):
    """Fifteen changes of a small cluster."""
    lifecycle = Lifecycle(seed)
    for _ in range(15):
        lifecycle.step()


@pytest.mark.long
@settings(max_examples=3000)
@given(st.integers(0, 2**32))
def test_nothing_is_used_twice_at_length(seed: int):
    """The invariant holds in more and longer runs."""
    lifecycle = Lifecycle(seed)
    for _ in range(50):
        lifecycle.step()


@pytest.mark.parametrize(
    ("plugin", "fault"),
    [
        ("NodeResourcesFit", "of cpu on|pods on|of memory on|of example.com/gpu on"),
        ("NodePorts", "listen on one port"),
        ("VolumeRestrictions", "write to one disk|is used by"),
        ("NodeVolumeLimits", "volumes of csi.example"),
        ("VolumeBinding", "runs without the volume"),
    ],
)
def test_the_truth_notices(plugin: str, fault: str):
    """A profile without the plugin is detected within a few runs."""

    def live() -> None:
        for seed in range(40):
            lifecycle = Lifecycle(seed, without=plugin)
            for _ in range(15):
                lifecycle.step()

    with pytest.raises(AssertionError, match=fault):
        live()
