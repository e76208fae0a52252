"""The nodes where a pod could run, by the filters of its profile on an engine with the cluster.

Pods of one shape share a result, unless the pod itself changes what the filters see: affinity,
spread or volumes. Such a pod is removed first, as its eviction will do.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
from msgspec.structs import replace

from scheduler.engine.engine import Engine
from scheduler.explain.why.requirements import PodRequirement
from scheduler.explain.why.trials import PodTrial
from scheduler.objects.pod import Pod, PodStatus

HARD_SPREAD = "DoNotSchedule"
_encode = msgspec.msgpack.Encoder(order="sorted").encode


def replacement(pod: Pod, number: int = 0) -> Pod:
    """Return the pod that its controller will create: unbound, without a status, with a name of
    its own.
    """
    meta = pod.metadata
    name, uid = f"{meta.name[:230]}-move-{number}", f"{meta.uid}-move-{number}"
    spec = replace(pod.spec, node_name="", preemption_policy="Never", scheduling_gates=())
    return replace(pod, metadata=replace(meta, name=name, uid=uid), spec=spec, status=PodStatus())


class Destinations:
    """Destinations of pods as sets of row numbers, which are also the node indexes of a problem."""

    def __init__(self, engine: Engine, now: float, rows: dict[str, int]) -> None:
        self._engine, self._now, self._rows = engine, now, rows
        self._known: dict[bytes, frozenset[int]] = {}
        self._own_node: dict[int, int] = rows_of(engine, rows)

    def of(self, pod: Pod) -> frozenset[int]:
        """Return the nodes that accept the replacement of a running pod beside all other pods."""
        if not touches_filters(pod):
            return self.of_new(pod)
        trial = PodTrial(self._engine, replacement(pod), self._now)
        with trial.changed(gone=(pod,)):
            found = self._nodes(trial.rows(trial.pod))
        return found & self._same_spread_domains(pod)

    def of_new(self, pod: Pod, without: Iterable[str] = ()) -> frozenset[int]:
        """Return the nodes that accept a new pod; the plugins `without` are skipped."""
        meta = pod.metadata
        key = _encode(
            (meta.namespace, meta.labels, replace(pod.spec, node_name=""), tuple(without))
        )
        found = self._known.get(key)
        if found is None:
            copy = replacement(pod)
            trial = PodTrial(self._engine, copy, self._now)
            requirements = [
                PodRequirement(f"plugins.{one}", "", "", plugin=one, is_pre_filter=True)
                for one in without
            ]
            found = self._known[key] = self._nodes(trial.rows(copy, requirements))
        return found

    def accepts(self, pod: Pod) -> bool:
        """Return whether the filters accept a running pod on its own node, with the pod removed
        first.
        """
        trial = PodTrial(self._engine, replacement(pod), self._now)
        with trial.changed(gone=(pod,)):
            return self._rows[pod.spec.node_name] in self._nodes(trial.rows(trial.pod))

    def _nodes(self, rows: np.ndarray) -> frozenset[int]:
        return frozenset(
            self._own_node[row] for row in np.flatnonzero(rows).tolist() if row in self._own_node
        )

    def _same_spread_domains(self, pod: Pod) -> frozenset[int]:
        """Return the nodes of the domains that the pod is counted in: a move inside changes no
        skew.
        """
        allowed = frozenset(self._rows.values())
        here = self._engine.cluster.table.nodes[self._engine.cluster.table.rows[pod.spec.node_name]]
        for constraint in pod.spec.topology_spread_constraints:
            if constraint.when_unsatisfiable != HARD_SPREAD or here is None:
                continue
            value = here.metadata.labels.get(constraint.topology_key)
            allowed &= {
                self._rows[node.metadata.name]
                for node in self._engine.cluster.table.nodes
                if node is not None and node.metadata.labels.get(constraint.topology_key) == value
            }
        return allowed


def rows_of(engine: Engine, rows: dict[str, int]) -> dict[int, int]:
    """Return the node index of each row of an engine's table."""
    return {row: rows[name] for name, row in engine.cluster.table.rows.items() if name in rows}


def touches_filters(pod: Pod) -> bool:
    """Return whether removing the pod can change the filters' verdicts on it."""
    spec = pod.spec
    affinity = spec.affinity
    return bool(
        (affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity))
        or any(one.when_unsatisfiable == HARD_SPREAD for one in spec.topology_spread_constraints)
        or any(one.persistent_volume_claim or one.ephemeral for one in spec.volumes)
        or spec.resource_claims
    )
