"""A simulation as tables: one row for each group, and for pods of one workload with
equal results.
"""

from collections.abc import Iterable, Mapping, Sequence

from scheduler.explain.folds import where_text
from scheduler.explain.nodetables import nodes_table
from scheduler.explain.texttable import TextTable
from scheduler.simulate.records import PodName, PodResult, Result, Simulation

# So many pods of a workload with the same result have a row each.
FEW = 10
_BAD = (Result.ERROR, Result.UNSCHEDULABLE, Result.WAITING, Result.GATED)


def simulation_tables(
    simulation: Simulation,
    *,
    wide: bool,
    groups: Mapping[str, str] | None = None,
    workloads: Mapping[str, str] | None = None,
    racks: Mapping[str, str] | None = None,
) -> list[TextTable]:
    """Return the pods, and with details each pod's nodes.

    `groups` and `workloads` name what a pod belongs to, by `namespace/name`. Unless `wide`,
    pods of a group with equal results share one row, and so do more than `FEW` pods of a workload.
    """
    titles = ["namespace", "name", "result", "node"]
    titles += ["profile", "nominated", "victims", "message"] if wide else ["message"]
    rows = [_pod_row(pod) for pod in simulation.pods] if wide else None
    if rows is None:
        rows = _folded(simulation.pods, groups or {}, workloads or {}, racks or {})
    tables = [TextTable(titles, rows)]
    # `nodes` is unset, not empty, where no details were requested.
    return tables + [
        nodes_table(pod.nodes, heading=f"{pod.key}: the first attempt")
        for pod in simulation.pods
        if isinstance(pod.nodes, tuple) and pod.nodes
    ]


def _folded(
    pods: Sequence[PodResult],
    groups: Mapping[str, str],
    workloads: Mapping[str, str],
    racks: Mapping[str, str],
) -> list[list[str]]:
    """Return rows, those of pods without a node first where there are more than `FEW` rows."""
    equal: dict[tuple[str, Result], list[PodResult]] = {}
    for pod in pods:
        name = groups.get(pod.key) or workloads.get(pod.key) or pod.key
        equal.setdefault((name, pod.result), []).append(pod)
    found: list[tuple[bool, list[str]]] = []
    for (name, result), some in equal.items():
        is_group = some[0].key in groups
        if len(some) == 1 or (not is_group and len(some) <= FEW):
            found += [(one.result not in _BAD, _short_row(one)) for one in some]
        else:
            found.append((result not in _BAD, _many_row(name, some, racks)))
    if len(found) > FEW:
        found.sort(key=lambda one: one[0])
    return [row for _, row in found]


def _many_row(name: str, pods: Sequence[PodResult], racks: Mapping[str, str]) -> list[str]:
    where = where_text((pod.node for pod in pods if pod.node), racks)
    short = name.partition("/")[2] or name
    messages = dict.fromkeys(pod.message for pod in pods)
    more = f" (and {len(messages) - 1} other messages)" if len(messages) > 1 else ""
    message = next(iter(messages)) + more
    return [pods[0].namespace, f"{short} x{len(pods)}", pods[0].result.value, where, message]


def _short_row(pod: PodResult) -> list[str]:
    return [pod.namespace, pod.name, pod.result.value, pod.node or "", pod.message]


def _pod_row(pod: PodResult) -> list[str]:
    row = [pod.namespace, pod.name, pod.result.value, pod.node or "", pod.profile]
    return [*row, pod.nominated_node or "", pod_names(pod.victims), pod.message]


def pod_names(pods: Iterable[PodName]) -> str:
    """Return pods as `namespace/name`, separated by commas."""
    return ",".join(f"{pod.namespace}/{pod.name}" for pod in pods)
