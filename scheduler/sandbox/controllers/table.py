"""The list of all controllers, in the order in which they observe and act."""

from scheduler.sandbox.controllers.disruption import DisruptionBudgets
from scheduler.sandbox.controllers.ephemeralvolumes import EphemeralVolumes
from scheduler.sandbox.controllers.namespaces import Namespaces
from scheduler.sandbox.controllers.nodehealth import GRACE_S, NodeHealth
from scheduler.sandbox.controllers.resourceclaims import ResourceClaims
from scheduler.sandbox.controllers.taintevictions import TaintEvictions
from scheduler.sandbox.controllers.workloads.daemonset import DaemonSets
from scheduler.sandbox.controllers.workloads.deployment import Deployments
from scheduler.sandbox.controllers.workloads.job import Jobs
from scheduler.sandbox.controllers.workloads.replicaset import ReplicaSets
from scheduler.sandbox.controllers.workloads.statefulset import StatefulSets
from scheduler.sandbox.controllers.workqueue import Controller
from scheduler.sandbox.store.store import ObjectStore


def controllers(store: ObjectStore, *, node_grace_s: float = GRACE_S) -> list[Controller]:
    """Return new controllers for a store; a node is lost without a renewal for `node_grace_s`."""
    return [
        Namespaces(store),
        NodeHealth(store, grace_s=node_grace_s),
        TaintEvictions(store),
        Deployments(store),
        ReplicaSets(store),
        StatefulSets(store),
        DaemonSets(store),
        Jobs(store),
        DisruptionBudgets(store),
        ResourceClaims(store),
        EphemeralVolumes(store),
    ]
