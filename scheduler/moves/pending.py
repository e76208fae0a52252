"""The pending pods of a snapshot: those that a goal wants to fit, and those that are nominated."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from scheduler.base.errors import InputError
from scheduler.groups.sources import registry as sources
from scheduler.moves.goals import CapacityGoal, FitGoal, MoveGoal
from scheduler.objects.pod import Pod
from scheduler.snapshot.snapshot import Snapshot
from scheduler.snapshot.targets import Target, pods_of


def waiting_pods(snapshot: Snapshot, goal: MoveGoal) -> list[Pod]:
    """Return the pods that are to fit; InputError if none is pending."""
    if isinstance(goal, CapacityGoal):
        return list(goal.pods)
    if not isinstance(goal, FitGoal):
        return []
    space, _, name = goal.key.rpartition("/")
    unbound = {pod.metadata.uid for pod in snapshot.unbound}
    named = pods_of(snapshot, Target("", space, name))
    found = [pod for pod in named if pod.metadata.uid in unbound]
    if not found:
        raise InputError(f"no pod and no group {goal.key} waits")
    key = sources.group_of(found[0])
    if key and len(found) == 1:
        found = [pod for pod in snapshot.unbound if sources.group_of(pod) == key]
    return found


def with_nominated(snapshot: Snapshot, waiting: Sequence[Pod]) -> Snapshot:
    """Return a snapshot without pending pods, in which nominated ones run on their nodes.

    They wait there for their victims to terminate, and a reservation of a MovePlan would take what
    these free: it has the highest priority. Nominations of the pods that are to fit do not count.
    """
    known = {node.metadata.name for node in snapshot.nodes}
    own = {pod.metadata.uid for pod in waiting}
    nominated = (
        replace(pod, spec=replace(pod.spec, node_name=pod.status.nominated_node_name))
        for pod in snapshot.unbound
        if pod.status.nominated_node_name in known and pod.metadata.uid not in own
    )
    return replace(snapshot, bound=(*snapshot.bound, *nominated), unbound=())
