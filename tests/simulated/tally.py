"""The totals of all runs: minutes, faults by kind, states, checked invariants, and violations."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.simulated.invariants import Invariant
from tests.simulated.moves import Play

# The source of each action. Unlisted ones are users' actions: pods, groups, and invalid objects.
FAULTS = {
    "network": (
        "cut", "silence", "lag", "partition", "blind", "missed", "ghost", "haunt", "hindsight",
        "hide_a_namesake",
        "namesakes", "namesake_of_a_victim", "rename", "late_receipts",
    ),
    "API server": (
        "refuse", "restart_server", "compact", "put_off", "usurp", "shrink", "lose_list", "mute",
        "drop_kind",
        "regain_kind", "blip", "turned_away", "retry_after", "raise_bar", "rotate", "locked_out",
    ),
    "processes": (
        "kill", "hand_over", "crash", "lose_lease", "half_bound", "succeed", "retire", "inherit",
        "stand_still",
        "upgrade", "bereave",
    ),
    "machines and other schedulers": (
        "lose_node", "flap", "resize_node", "touch_node", "refuse_pod", "steal",
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

    def add(self, played: Play) -> None:
        """Add one run."""
        history = played.cluster.history
        self.binds += history.binds
        self.excused += history.excused
        self.moves += played.made
        self.checked += played.cluster.audit.checked
        self.states |= played.states
        self.quiet_s += played.quiet_s

    def lines(self, first: int, cpu_s: float) -> Iterable[str]:
        """Yield the table."""
        minutes = self.virtual_s / 60
        yield "| | |\n|---|---|"
        yield f"| seeds | {self.seeds}, from {first} on, {self.long_ones} of them for days |"
        rate = minutes / max(cpu_s, 1e-9)
        yield f"| virtual minutes | {minutes:.0f} ({rate:.1f} in a second of CPU) |"
        yield f"| of them quiet, in runs of days | {self.quiet_s / 60:.0f} |"
        yield f"| binds, each held to capacity and to be the only one | {self.binds} |"
        yield f"| of them over room that others had just taken | {self.excused} |"
        yield f"| states reached | {len(self.states)} |"
        for kind, names in FAULTS.items():
            yield f"| faults: {kind} | {sum(self.moves[name] for name in names)} |"
        yield from (f"| invariant asked: {name} | {n} |" for name, n in self.checked.most_common())
        yield from (f"| move: {name} | {n} |" for name, n in self.moves.most_common())
        yield f"| invariants broken | {len(self.broken)} |"
