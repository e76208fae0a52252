"""The placed pods that keep members of a group off nodes with capacity for them.

Host ports and required anti-affinity of both sides are read from the pods, so that the fewest
victims are found for them as well. Rejections by other filters show when an answer is verified: all
candidates on the node then conflict together. Pure; called when a group may evict.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from scheduler.framework.nodes import Nodes
from scheduler.groups.planning.between import sets_by_label, term_selects
from scheduler.objects.pod import ContainerPort, Pod
from scheduler.state.podindex import Placed
from scheduler.state.ports import ports_conflict
from scheduler.state.shapes import host_ports

Conflicts = Mapping[str, tuple[int, ...]]  # uid of a placed pod -> the leaves that it blocks


def conflicts(
    pod: Pod,
    nodes: Nodes,
    rows: Sequence[int],
    placed: Iterable[Placed],
    blocked: Collection[int],
    candidates: Collection[str],
) -> Conflicts:
    """Return the pods that must leave before `pod` can be placed on a leaf; `rows` are the leaves'
    rows.

    On a leaf in `blocked`, every pod in `candidates` (uids) must leave.
    """
    ports = host_ports(pod)
    leaf_of = {row: leaf for leaf, row in enumerate(rows)}
    by_key: dict[str, dict[int, tuple[int, ...]]] = {}
    found: dict[str, tuple[int, ...]] = {}
    for other in placed:
        keys = _keys(pod, other.pod)
        row = nodes.row(other.node)
        if row is None:
            continue
        leaves: set[int] = set()
        leaf = leaf_of.get(row)
        uid = other.pod.metadata.uid
        if leaf is not None and (
            (leaf in blocked and uid in candidates) or _clash(ports, other.pod)
        ):
            leaves.add(leaf)
        for key in keys:
            if key not in by_key:
                by_key[key] = sets_by_label(nodes, rows, key)
            leaves.update(by_key[key].get(int(nodes.label_ids(key)[row]), ()))
        if leaves:
            found[uid] = tuple(sorted(leaves))
    return found


def _clash(ports: Sequence[ContainerPort], other: Pod) -> bool:
    return bool(ports) and any(
        ports_conflict(own, taken) for own in ports for taken in host_ports(other)
    )


def _keys(pod: Pod, other: Pod) -> set[str]:
    """Return the topology keys by which one of the two pods rejects the other in its domain."""
    found: set[str] = set()
    for one, seen in ((pod, other), (other, pod)):
        affinity = one.spec.affinity
        if affinity is not None and affinity.pod_anti_affinity is not None:
            terms = affinity.pod_anti_affinity.required
            found.update(term.topology_key for term in terms if term_selects(term, one, seen))
    return found
