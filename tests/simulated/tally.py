"""The totals of all runs: minutes, faults by kind, states, checked invariants, and violations."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulated.actions import Actions
from tests.simulated.invariants import Invariant

# The source of each action. Unlisted ones are users' actions: pods, groups, and invalid objects.
FAULTS = {
    "network": (
        "break_watches", "freeze_watches", "freeze_watches_briefly", "partition",
        "delay_one_kind", "miss_deletions", "bind_late", "bind_after_timeout",
        "deliver_old_version", "hide_recreated_pod", "recreate_pods", "recreate_victim",
        "recreate_unseen_pod", "delay_events",
    ),
    "API server": (
        "fail_requests", "restart_server", "drop_history", "delay_binds",
        "contest_rejected_group", "shrink_nodes", "fail_list", "reject_status_writes",
        "drop_kind", "recreate_kind", "fail_list_once", "reject_binds", "retry_after",
        "raise_minimum", "expire_token", "start_rejected",
    ),
    "processes": (
        "kill", "terminate_replica", "kill_during_write", "lose_lease", "half_bound",
        "promote_stale_standby", "terminate_leader", "terminate_during_binds", "pause_leader",
        "upgrade", "delete_bound_member",
    ),
    "machines and other schedulers": (
        "lose_node", "cordon_briefly", "resize_node", "touch_node", "refuse_pod",
        "bind_as_another_client",
    ),
}  # fmt: skip


@dataclass
class Tally:
    """The totals of all runs; `quiet_s` is the quiet time of long runs."""

    seeds: int = 0
    long_ones: int = 0
    virtual_s: float = 0.0
    quiet_s: float = 0.0
    binds: int = 0
    excused: int = 0
    moves: Counter[str] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)
    states: set[tuple[object, ...]] = field(default_factory=set)
    broken: list[tuple[int, Invariant]] = field(default_factory=list)

    def add(self, actions: Actions) -> None:
        """Add one run."""
        history = actions.cluster.history
        self.binds += history.binds
        self.excused += history.excused
        self.moves += actions.made
        self.checked += actions.cluster.audit.checked
        self.states |= actions.states
        self.quiet_s += actions.quiet_s

    def lines(self, first: int, cpu_s: float) -> Iterable[str]:
        """Yield the table."""
        minutes = self.virtual_s / 60
        yield "| | |\n|---|---|"
        yield f"| seeds | {self.seeds}, from {first} on, {self.long_ones} of them for days |"
        rate = minutes / max(cpu_s, 1e-9)
        yield f"| virtual minutes | {minutes:.0f} ({rate:.1f} in a second of CPU) |"
        yield f"| of them quiet, in runs of days | {self.quiet_s / 60:.0f} |"
        yield f"| binds, each checked for capacity and to be the only one | {self.binds} |"
        yield f"| of them over capacity that others had just taken | {self.excused} |"
        yield f"| states reached | {len(self.states)} |"
        for kind, names in FAULTS.items():
            yield f"| faults: {kind} | {sum(self.moves[name] for name in names)} |"
        yield from (f"| invariant asked: {name} | {n} |" for name, n in self.checked.most_common())
        yield from (f"| action: {name} | {n} |" for name, n in self.moves.most_common())
        yield f"| invariants broken | {len(self.broken)} |"
