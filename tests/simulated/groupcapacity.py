"""The possible completion of a group on its nodes: bound members, and capacity for more."""

from tests.simulated.history import History, Object, requests_of

POD_GROUP = "scheduling.x-k8s.io/pod-group"


def members(pods: dict[str, Object], group: str) -> list[Object]:
    """Return the members of a group that are not terminating."""
    return [
        pod
        for pod in pods.values()
        if (pod["metadata"].get("labels") or {}).get(POD_GROUP) == group
        and "deletionTimestamp" not in pod["metadata"]
        and not pod["spec"].get("schedulingGates")
    ]


def at_most(history: History, pods: dict[str, Object], group: str, *, closed: bool = False) -> int:
    """Return how many members are or could be bound: nodes are filled in order, largest members
    first.

    Cordoned nodes count only with `closed`. For heterogeneous members this is a lower bound.
    """
    mine = members(pods, group)
    bound = sum(bool(pod["spec"].get("nodeName")) for pod in mine)
    wanted = [requests_of(pod["spec"]) for pod in mine if not pod["spec"].get("nodeName")]
    wanted.sort(key=lambda one: one.get("cpu", 0), reverse=True)
    for name, node in history.nodes.items():
        if node.is_closed and not closed:
            continue
        used = history.used(name)
        free = {r: offered - used.get(r, 0) for r, offered in node.allocatable.items()}
        for one in list(wanted):
            if all(free.get(resource, 0) >= amount for resource, amount in one.items()):
                wanted.remove(one)
                bound += 1
                for resource, amount in one.items():
                    free[resource] -= amount
    return bound
