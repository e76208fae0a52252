"""DaemonSet pods of nodes that are added to a snapshot."""

from msgspec.structs import replace

from scheduler.controlplane.templates import template_hash
from scheduler.objects.node import Node
from scheduler.objects.pod import Pod
from scheduler.snapshot.admission import ClusterAdmission
from scheduler.snapshot.workloads.found import FoundWorkload, plain_node, template_of
from scheduler.snapshot.workloads.ordered import DaemonPods
from scheduler.snapshot.workloads.table import with_defaults


class DaemonTemplate:
    """Create the pod of a DaemonSet on a new node; `is_given` as in FoundWorkload."""

    def __init__(self, workload: FoundWorkload, admission: ClusterAdmission) -> None:
        workload = with_defaults(workload)
        self.is_given = workload.is_given
        self._name = workload.name
        self._admission = admission
        self._pods = DaemonPods(workload, template_hash(template_of(workload.spec, "spec")))

    def pod_on(self, node: Node) -> Pod | None:
        """Return the pod of a node, bound to it unless it must be scheduled.

        None if the node gets none.
        """
        if not self._pods.suits(plain_node(node)):
            return None
        name = node.metadata.name
        pod = self._admission.pod(self._pods.on(name, f"{self._name}-{name}"))
        return pod if self.is_given else replace(pod, spec=replace(pod.spec, node_name=name))
