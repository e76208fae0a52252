"""The vocabulary of `Plugin.reads`, and which facts differ between two versions of an object.

A rejected pod is retried when a change touches a fact that the rejecting plugin reads and the
plugin's `hint` allows it.

    node               a node appears              node.deleted       a node goes away
    node.labels        its labels                  node.taints        its taints, spec.unschedulable
    node.allocatable   its allocatable amounts     node.images        its images
    node.features      its declared features       node.annotations   those that plugins read
    pod.added          a bound pod appears         pod.deleted        a bound or nominated pod goes
    pod.labels         a bound pod's labels        pod.requests       a bound pod asks for less
    pod.terminating    a bound pod's deletion was requested
    waiting.deleted    a pod that waits for a node goes away, or is asked to
    self.labels  self.tolerations  self.gates  self.requests  self.claims   the waiting pod itself
                       (`self.labels` are those of its annotations as well that plugins read)
    <Kind>             any change of a kind without columns: Service, PersistentVolume, …

A new node counts as a change of every `node.*` fact except `node.deleted`.
"""

from scheduler.base.release import V1_37, Release
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.state.podindex import Placed

NODE_ADDED = "node"
NODE_DELETED = "node.deleted"
NODE_LABELS = "node.labels"
NODE_TAINTS = "node.taints"
NODE_ALLOCATABLE = "node.allocatable"
NODE_IMAGES = "node.images"
NODE_FEATURES = "node.features"
NODE_ANNOTATIONS = "node.annotations"
POD_ADDED = "pod.added"
POD_DELETED = "pod.deleted"
POD_LABELS = "pod.labels"
POD_REQUESTS = "pod.requests"
POD_TERMINATING = "pod.terminating"
WAITING_DELETED = "waiting.deleted"
SELF_LABELS = "self.labels"
SELF_TOLERATIONS = "self.tolerations"
SELF_GATES = "self.gates"
SELF_REQUESTS = "self.requests"
SELF_CLAIMS = "self.claims"

NODE_APPEARS = frozenset(
    (
        NODE_ADDED,
        NODE_LABELS,
        NODE_TAINTS,
        NODE_ALLOCATABLE,
        NODE_IMAGES,
        NODE_FEATURES,
        NODE_ANNOTATIONS,
    )
)
NODE_DELETION = frozenset((NODE_DELETED,))
POD_APPEARS = frozenset((POD_ADDED,))
POD_DELETION = frozenset((POD_DELETED,))

# kube-scheduler's names of the events, for the `event` label of its metrics.
NODE_LABEL_OF = {
    NODE_ALLOCATABLE: "NodeUpdateNodeAllocatable",
    NODE_LABELS: "NodeUpdateNodeLabel",
    NODE_TAINTS: "NodeUpdateNodeTaint",
    NODE_FEATURES: "NodeUpdateNodeDeclaredFeature",
    NODE_IMAGES: "NodeUpdate",
    NODE_ANNOTATIONS: "NodeUpdateNodeAnnotation",
}
ASSIGNED_LABEL_OF = {
    POD_LABELS: "AssignedPodUpdatePodLabel",
    POD_REQUESTS: "AssignedPodUpdatePodScaleDown",
}
SELF_LABEL_OF = {
    SELF_LABELS: "UnschedulablePodUpdatePodLabel",
    SELF_TOLERATIONS: "UnschedulablePodUpdatePodToleration",
    SELF_GATES: "UnschedulablePodUpdatePodSchedulingGatesEliminated",
    SELF_REQUESTS: "UnschedulablePodUpdatePodScaleDown",
    SELF_CLAIMS: "UnschedulablePodUpdatePodGeneratedResourceClaim",
}


_RENAMED_1_37 = (
    ("UnschedulablePodUpdatePod", "TargetPodUpdatePod"),
    ("UnschedulablePod", "UnscheduledPod"),
)


def event_name(label: str, release: Release) -> str:
    """Return kube-scheduler's name of an event in a release; the labels here are those of 1.36."""
    if release >= V1_37:
        for before, after in _RENAMED_1_37:
            if label.startswith(before):
                return after + label.removeprefix(before)
    return label


def node_facts(old: Node, new: Node) -> frozenset[str]:
    """Return which facts of a node changed."""
    changed = []
    if old.status.allocatable != new.status.allocatable:
        changed.append(NODE_ALLOCATABLE)
    if old.metadata.labels != new.metadata.labels:
        changed.append(NODE_LABELS)
    if old.spec.taints != new.spec.taints or old.spec.unschedulable != new.spec.unschedulable:
        changed.append(NODE_TAINTS)
    if old.status.declared_features != new.status.declared_features:
        changed.append(NODE_FEATURES)
    if old.status.images != new.status.images:
        changed.append(NODE_IMAGES)
    if old.metadata.annotations != new.metadata.annotations:
        changed.append(NODE_ANNOTATIONS)
    return frozenset(changed)


def placed_facts(old: Placed, new: Placed) -> frozenset[str]:
    """Return which facts of a pod on a node changed."""
    changed = []
    if old.pod.metadata.labels != new.pod.metadata.labels:
        changed.append(POD_LABELS)
    if any(amount > new.requests.get(name, 0) for name, amount in old.requests.items()):
        changed.append(POD_REQUESTS)
    if new.pod.is_terminating and not old.pod.is_terminating:
        changed.append(POD_TERMINATING)
    return frozenset(changed)


def waiting_facts(old: Pod, new: Pod, *, shrank: bool) -> frozenset[str]:
    """Return the facts of a waiting pod that changed."""
    changed = []
    one, other = old.metadata, new.metadata
    if one.labels != other.labels or one.annotations != other.annotations:
        changed.append(SELF_LABELS)
    if old.spec.tolerations != new.spec.tolerations:
        changed.append(SELF_TOLERATIONS)
    if old.spec.scheduling_gates != new.spec.scheduling_gates:
        changed.append(SELF_GATES)
    if shrank:
        changed.append(SELF_REQUESTS)
    if old.status.resource_claim_statuses != new.status.resource_claim_statuses:
        changed.append(SELF_CLAIMS)
    return frozenset(changed)
