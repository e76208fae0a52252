"""A coarse state of a simulated cluster: leader, queues, groups, binds, watches, rejections.

It reads the processes' internals, which invariants must not; it only decides whether a run reached
a new state.
"""

from typing import Any

from scheduler.engine.queue.pod import Where
from scheduler.framework.calls import BindPod
from tests.simulated.cluster import SimulatedCluster
from tests.simulated.groupcapacity import POD_GROUP
from tests.simulated.replica import Replica

State = tuple[object, ...]


def state_of(cluster: SimulatedCluster, groups: dict[str, int]) -> State:
    """Return the current state of a cluster."""
    pods = cluster.pods()
    waiting = [pod for pod in pods.values() if not pod["spec"].get("nodeName")]
    replicas = cluster.replicas
    return (
        sum(one.daemon.engine.is_leading for one in replicas),
        cluster.audit.holder is not None,
        any(POD_GROUP in pod["metadata"].get("labels", {}) for pod in waiting),
        any(pod["spec"].get("priority") for pod in waiting),
        bool(cluster.partial(groups)),
        any("deletionTimestamp" in pod["metadata"] for pod in pods.values()),
        any(pod["status"].get("nominatedNodeName") for pod in waiting),
        sum(one.wiring.is_cut_off for one in replicas),
        sum(any(flow.is_dead for flow in one.wiring.flows) for one in replicas),
        any(one.wiring.in_flight for one in replicas),
        tuple(sorted(cluster.refusals)),
        next((_inside(one) for one in replicas if one.daemon.engine.is_leading), ()),
    )


def any_bind_unsettled(engine: Any) -> bool:
    """Return whether a bind was sent, or may still arrive, with an unknown outcome."""
    return any(isinstance(pod.step, BindPod) for pod in engine.bindings._pods.values())


def _inside(one: Replica) -> State:
    """Return the stages of the leader's pods and groups."""
    engine = one.daemon.engine
    at = {queued.where for queued in engine.queues}
    groups: Any = engine.groups
    bindings = groups._bindings.by_key.values()
    return (
        tuple(where in at for where in Where),
        len(engine.bindings.waiting) > 0,
        any_bind_unsettled(engine),
        len(engine.preemptions) > 0,
        groups.is_planning,
        frozenset((one.step, one.is_broken) for one in bindings),
        bool(groups.first),
        bool(engine.intake.behind),
        any(queue.queued for queue in one.daemon._executor._all),
    )
