"""Whether a cluster exceeds its limits: resources, ports, disks, claims, attached volumes.

Computed from plain objects by the simplest means, pair by pair; independent of the scheduler's
columns.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

from scheduler.objects.node import Node
from scheduler.objects.pod import ContainerPort, Pod
from scheduler.objects.quantity import resource_amount
from scheduler.objects.storage import CSINode, PersistentVolume, PersistentVolumeClaim

ANY = ("", "0.0.0.0")
RESOURCES = ("cpu", "memory", "ephemeral-storage", "example.com/gpu")


class Truth:
    """The bound pods and the objects that they use; `claims` by `namespace/name`, the others by
    name.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        claims: Mapping[str, PersistentVolumeClaim],
        volumes: Mapping[str, PersistentVolume],
        limits: Mapping[str, CSINode],
    ) -> None:
        self._nodes = {node.metadata.name: node for node in nodes}
        self._pods: dict[str, list[Pod]] = defaultdict(list)
        for pod in pods:
            if pod.spec.node_name:
                self._pods[pod.spec.node_name].append(pod)
        self._claims, self._volumes, self._limits = claims, volumes, limits

    def faults(self) -> list[str]:
        """Return all violations, node by node."""
        found = [f"{name}: {text}" for name in self._pods for text in self._on(name)]
        return found + list(self._claimed())

    def _on(self, name: str) -> Iterator[str]:
        pods, offers = self._pods[name], self._nodes[name].status.allocatable
        for resource in RESOURCES:
            used = sum(_asked(pod, resource) for pod in pods)
            if used > resource_amount(resource, offers.get(resource, 0)):
                yield f"{used} of {resource} on {offers.get(resource, 0)}"
        if len(pods) > int(offers["pods"]):
            yield f"{len(pods)} pods on {offers['pods']}"
        for one, other in combinations(pods, 2):
            if any(_clash(a, b) for a in _ports(one) for b in _ports(other)):
                yield f"{one.key} and {other.key} listen on one port"
            if any(_share(a, b) for a in one.spec.volumes for b in other.spec.volumes):
                yield f"{one.key} and {other.key} write to one disk"
        yield from self._attached(name, pods)

    def _attached(self, name: str, pods: list[Pod]) -> Iterator[str]:
        """Check the volumes that each driver attaches, and where volumes can be reached from."""
        handles: dict[str, set[str]] = defaultdict(set)
        for pod in pods:
            for claim in self._claims_of(pod):
                volume = self._volumes.get(claim.spec.volume_name)
                if volume is None:
                    yield f"{pod.key} runs without the volume of {claim.key}"
                    continue
                if volume.spec.csi is not None:
                    handles[volume.spec.csi.driver].add(volume.spec.csi.volume_handle)
                if not self._reaches(volume, name):
                    yield f"{pod.key} cannot reach {volume.metadata.name}"
        limits = self._limits[name].limits if name in self._limits else {}
        for driver, used in handles.items():
            if driver in limits and len(used) > limits[driver]:
                yield f"{len(used)} volumes of {driver} on {limits[driver]}"

    def _claimed(self) -> Iterator[str]:
        """Check that no exclusive claim is used by two pods, and no volume by two claims."""
        users: dict[str, list[str]] = defaultdict(list)
        for pod in (pod for pods in self._pods.values() for pod in pods):
            for claim in self._claims_of(pod):
                if "ReadWriteOncePod" in claim.spec.access_modes:
                    users[claim.key].append(pod.key)
        yield from (f"{claim} is used by {keys}" for claim, keys in users.items() if len(keys) > 1)
        owners: dict[str, list[str]] = defaultdict(list)
        for claim in self._claims.values():
            if claim.spec.volume_name:
                owners[claim.spec.volume_name].append(claim.key)
        yield from (f"{volume} is {keys}'s" for volume, keys in owners.items() if len(keys) > 1)

    def _claims_of(self, pod: Pod) -> list[PersistentVolumeClaim]:
        named = (v.persistent_volume_claim for v in pod.spec.volumes)
        return [self._claims[f"{pod.metadata.namespace}/{n.claim_name}"] for n in named if n]

    def _reaches(self, volume: PersistentVolume, node: str) -> bool:
        affinity = volume.spec.node_affinity
        if affinity is None or affinity.required is None:
            return True
        labels: Mapping[str, Any] = self._nodes[node].metadata.labels
        return any(
            all(labels.get(e.key) in e.values for e in term.match_expressions)
            for term in affinity.required.node_selector_terms
        )


def _asked(pod: Pod, resource: str) -> int:
    def of(container: Any) -> int:
        return resource_amount(resource, container.resources.requests.get(resource, 0))

    together = sum(of(container) for container in pod.spec.containers)
    return max([together, *(of(container) for container in pod.spec.init_containers)])


def _ports(pod: Pod) -> list[ContainerPort]:
    return [port for c in pod.spec.containers for port in c.ports if port.host_port]


def _clash(one: ContainerPort, other: ContainerPort) -> bool:
    same = (one.host_port, one.protocol) == (other.host_port, other.protocol)
    return same and (one.host_ip == other.host_ip or one.host_ip in ANY or other.host_ip in ANY)


def _share(one: Any, other: Any) -> bool:
    first, second = one.gce_persistent_disk, other.gce_persistent_disk
    if first is None or second is None or first.pd_name != second.pd_name:
        return False
    return not (first.read_only and second.read_only)
