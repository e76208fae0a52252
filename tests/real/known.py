"""Known differences between Trellis and kube-scheduler, each with its reason.

A rule names its cases as narrowly as it can. An unknown difference fails the comparison: either it
is a fault of Trellis, or it needs a rule here and an entry in docs/compatibility.md.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from tests.real.comparison import ABSENT, Difference
from tests.real.population import waiting
from tests.real.recording import FREED, NO_NODES, WAITING

NO_BATCHES = "OpportunisticBatching does not exist here: every pod is scored on its own"
RETRIES_WITHOUT_NODES = (
    "kube-scheduler tries a pod that met no nodes again by back-off; ours waits for the first node"
)
PODS_IN_ERROR = sum(kind.count for kind in waiting() if kind.settles == "error")
ERRORS_GO_ON = "pods in error are tried again by back-off for as long as the run lasts"


class Known(NamedTuple):
    """A rule: `where` is a regular expression for "phase / about / kind / path".

    `holds` evaluates both values.
    """

    where: str
    holds: Callable[[Any, Any], bool]
    why: str


def always(_peer: Any, _ours: Any) -> bool:
    """Hold for any two values."""
    return True


def missing(_peer: Any, ours: Any) -> bool:
    """Return whether only the peer has the value."""
    return bool(ours == ABSENT)


def extra(peer: Any, _ours: Any) -> bool:
    """Return whether only Trellis has the value."""
    return bool(peer == ABSENT)


def few_apart(peer: Any, ours: Any) -> bool:
    """Hold for two numbers that are nearly the same."""
    numbers = isinstance(peer, int | float) and isinstance(ours, int | float)
    return numbers and abs(ours - peer) <= 3


RULES: tuple[Known, ...] = (
    Known(
        r".* / metric / scheduler_(batch_\w+|get_node_hint\w+|store_schedule_results\w+) / ",
        missing,
        NO_BATCHES,
    ),
    Known(
        rf"{NO_NODES} / metric / scheduler_(schedule_attempts_total|pending_pods|"
        r"queue_incoming_pods_total|scheduling_attempt_duration_seconds) / .*",
        always,
        RETRIES_WITHOUT_NODES,
    ),
    Known(
        # A pod in error is in another queue between two tries.
        rf"{WAITING} / metric / scheduler_pending_pods / .*(active|backoff).*",
        always,
        ERRORS_GO_ON,
    ),
    Known(
        rf"{WAITING} / metric / scheduler_queue_incoming_pods_total / "
        r"\{((active|backoff),NodeAdd|active,PopFromBackoffQ"
        r"|unschedulable,ScheduleAttemptFailure)\}",
        lambda peer, ours: 0 < ours - peer < 10,
        RETRIES_WITHOUT_NODES,
    ),
    Known(
        rf"{WAITING} / metric / scheduler_queue_incoming_pods_total / "
        r"\{(active,BackoffComplete|backoff,ScheduleAttemptFailure)\}",
        always,
        ERRORS_GO_ON,
    ),
    Known(
        r".* / metric / scheduler_framework_extension_point_duration_seconds / \{Sign,.*\}",
        missing,
        NO_BATCHES,
    ),
    Known(
        r".* / metric / scheduler_(schedule_attempts_total|scheduling_attempt_duration_seconds)"
        r" / \{error,.*\}",
        always,
        ERRORS_GO_ON,
    ),
    Known(
        rf"{WAITING} / metric / "
        rf"scheduler_(schedule_attempts_total|pod_scheduling_sli_duration_seconds|"
        r"scheduling_attempt_duration_seconds) / \{([2-9]|unschedulable,.*)\}",
        lambda peer, ours: abs(peer - ours) <= 5,
        "how often the first pod of all was tried while nodes came one by one",
    ),
    Known(
        r".* / metric / scheduler_framework_extension_point_duration_seconds"
        r" / \{(Permit|PreBindPreFlight|PostBind),.*\}",
        missing,
        "a point without a plugin in the profile takes no time here and is not measured",
    ),
    Known(
        r".* / metric / scheduler_podgroup_scheduling_algorithm_duration_seconds / ",
        extra,
        "groups are placed here without a feature gate; a histogram without labels shows from "
        "the start",
    ),
    Known(
        r".* / metric / scheduler_(queued_entities|queue_incoming_entities_total|"
        r"workload_preemption_victims|preemption_(workload_disruptions|pdb_violations_total|"
        r"(evaluation|execution)_duration_seconds)) / .*",
        extra,
        "rows of kube-scheduler 1.37, partly behind a feature gate; here on every release",
    ),
    Known(
        r".* / metric / scheduler_plugin_evaluation_total / "
        r"\{((NodeName|NodeUnschedulable|TaintToleration),PreFilter"
        r"|VolumeBinding,(PreScore|Score))\}",
        missing,
        "points of kube-scheduler 1.37 that change no decision: there is no such point here",
    ),
    Known(
        r".* / metric / scheduler_inflight_events / ",
        missing,
        "counted while something is in flight; there the labels stay with a zero",
    ),
    Known(
        rf"({WAITING}|{FREED}) / metric / scheduler_pending_pods / \\{{(active|backoff)\\}}",
        lambda peer, ours: max(peer, ours) <= PODS_IN_ERROR,
        ERRORS_GO_ON,
    ),
    Known(
        # Two pods in error are retried during the whole run: readings may differ by one try.
        rf"{WAITING} / metric / .*",
        few_apart,
        ERRORS_GO_ON,
    ),
)


def classify(differences: Iterable[Difference]) -> list[Difference]:
    """Return the differences; those covered by a rule have its reason."""
    return [msgspec.structs.replace(each, why=_why(each)) for each in differences]


def _why(difference: Difference) -> str:
    where = f"{difference.phase} / {difference.about} / {difference.kind} / {difference.path}"
    for rule in RULES:
        if re.fullmatch(rule.where, where) and rule.holds(difference.peer, difference.ours):
            return rule.why
    return ""
