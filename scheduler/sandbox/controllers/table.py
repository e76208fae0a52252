"""The list of all controllers, in the order in which they hear and act."""

from scheduler.sandbox.controllers.daemonset import DaemonSets
from scheduler.sandbox.controllers.deployment import Deployments
from scheduler.sandbox.controllers.replicaset import ReplicaSets
from scheduler.sandbox.controllers.statefulset import StatefulSets
from scheduler.sandbox.store import Store
from scheduler.sandbox.turns import Actor


def controllers(store: Store) -> list[Actor]:
    """New controllers for a store."""
    return [Deployments(store), ReplicaSets(store), StatefulSets(store), DaemonSets(store)]
