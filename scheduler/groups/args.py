"""The plugin's arguments; `topologyConfigMapNameSpace` is Sakkara's, the others are Trellis's."""

from collections.abc import Collection, Iterator
from typing import Literal, Self, TypeAlias

import msgspec

from scheduler.framework.args import Args

Derivable: TypeAlias = Literal[
    "JobSet", "TrainJob", "LeaderWorkerSet", "RayCluster", "RayJob", "MPIJob", "Job"
]
LONGEST_SOLVE_S = 60.0
MOST_WORKERS = 64
_STATUSES = ("True", "False", "Unknown")


class ClusterTopologyPlacementGroupArgs(Args):
    """The source of the tree, and the limits of a solve.

    `topology_labels` are node labels from the top level down to the one above the nodes; they count
    when there is no topology ConfigMap. One of the words region, zone, block and rack stands for
    the first label known for that level which all nodes carry. `topology` names the tree of groups
    that name none: that of a topology ConfigMap, a Topology of Kueue, or `hypernodes`, that of
    Volcano's HyperNodes. Nodes with `avoid_label`, whatever its value, take members only of groups
    that do not fit without them, and so do nodes in one of `avoid_conditions`, each a type of
    condition (status True) or `Type=Status`; those with `standby_label` (`spare_label` is its
    former name) only of groups that have lost members, and only when no other node fits.
    `preemption` allows groups to evict pods of lower priority; `pdb` selects whether disruption
    budgets forbid that or are violated as little as possible. With
    `prefer_victims_that_fit_elsewhere`, of equally few victims those go that fit another node.
    `derive` names the kinds of workloads whose pods are a group by their labels and the workload's
    own numbers, where no label or object names their group; `derive_on_request` does so in the
    namespaces whose annotation `trellis.dev/derive-groups` names the kind. `solver` of the
    TrellisConfiguration limits the time and workers of a solve; 0 `solver_workers` use that limit.
    Without `schedule_groups` pods that name a group stay gated, as in a profile that disables the
    plugin.
    """

    schedule_groups: bool = True
    topology_config_map_name_space: str = "default"
    topology_labels: tuple[str, ...] = ()
    topology: str = ""
    avoid_label: str = ""
    avoid_conditions: tuple[str, ...] = ()
    standby_label: str = ""
    spare_label: str = ""
    solver: Literal["Auto", "CPSAT", "Exact", "Greedy"] = "Auto"
    solver_time_limit_seconds: float = 2.0
    solver_workers: int = 0
    preemption: Literal["Enabled", "Disabled"] = "Enabled"
    preemption_time_limit_seconds: float = 3.0
    pdb: Literal["Minimize", "Forbid"] = "Minimize"
    prefer_victims_that_fit_elsewhere: bool = False
    derive: tuple[Derivable, ...] = ()
    derive_on_request: tuple[Derivable, ...] = ()

    def validate(self) -> Iterator[tuple[str, str]]:
        """Yield the values that are out of range, and invalid conditions."""
        for name, value in (
            ("solverTimeLimitSeconds", self.solver_time_limit_seconds),
            ("preemptionTimeLimitSeconds", self.preemption_time_limit_seconds),
        ):
            if not 0 < value <= LONGEST_SOLVE_S:
                yield name, f"must be above 0 and at most {LONGEST_SOLVE_S:g}, not {value:g}"
        if not 0 <= self.solver_workers <= MOST_WORKERS:
            text = f"must be from 0 to {MOST_WORKERS}, not {self.solver_workers}"
            yield "solverWorkers", text
        if self.standby_label and self.spare_label not in ("", self.standby_label):
            yield "spareLabel", "is the former name of standbyLabel, which names another label"
        for one in self.avoid_conditions:
            kind, sign, status = one.partition("=")
            if not kind or (sign and status not in _STATUSES):
                yield "avoidConditions", f'"{one}" is neither a type nor Type=True|False|Unknown'

    @property
    def label_of_standby(self) -> str:
        """Return `standby_label`, by whichever of its names."""
        return self.standby_label or self.spare_label

    @property
    def avoided_conditions(self) -> frozenset[str]:
        """Return `avoid_conditions`, each as `Type=Status`."""
        return frozenset(one if "=" in one else f"{one}=True" for one in self.avoid_conditions)

    def derived_kinds(self) -> tuple[Collection[str], Collection[str]]:
        """Return `derive` and `derive_on_request`."""
        return self.derive, self.derive_on_request

    def within(self, solve_s: float, workers: int) -> Self:
        """Return these arguments with no more time and workers than that."""
        return msgspec.structs.replace(
            self,
            solver_time_limit_seconds=min(self.solver_time_limit_seconds, solve_s),
            preemption_time_limit_seconds=min(self.preemption_time_limit_seconds, solve_s),
            solver_workers=min(self.solver_workers or workers, workers),
        )
