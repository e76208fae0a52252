"""Compare two recordings: the pods, events and metrics of either side, kind by kind.

Pods of one kind are equivalent, so their records are compared as a whole: it does not matter which
of two equal pods got the last free place. Every value that differs is a `Difference`; known.py
states which are known, and why.
"""

import json
from collections import Counter, defaultdict
from typing import Any

import msgspec

from tests.real.canonical import event_record, flat, kind_of, pod_record
from tests.real.exposition import FamilyText, parse
from tests.real.population import waiting
from tests.real.recording import EARLY, FREED, NO_NODES, Recording, Snapshot

ABSENT = "(absent)"
ERRORS = {kind.name for kind in waiting() if kind.settles == "error"}


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """One value that differs: its position, the peer's value, that of Trellis, and the known reason
    if any.
    """

    phase: str
    about: str
    kind: str
    path: str
    peer: Any
    ours: Any
    why: str = ""


class Compared(msgspec.Struct):
    """All differences, and the number of compared values."""

    values: int = 0
    differences: list[Difference] = []


def compare(peer: Recording, ours: Recording) -> Compared:
    """Compare everything in two recordings."""
    result = Compared(0, [])
    for phase, snapshot in peer.snapshots.items():
        other = ours.snapshots[phase]
        _compare_groups(result, phase, "pod", _pods(snapshot, peer), _pods(other, ours))
        events = _events(snapshot, phase), _events(other, phase)
        _compare_groups(result, phase, "event", *events)
        _compare_metrics(result, phase, parse(snapshot.metrics), parse(other.metrics))
    return result


Groups = dict[str, Counter[str]]


def _pods(snapshot: Snapshot, recording: Recording) -> Groups:
    groups: Groups = defaultdict(Counter)
    for pod in snapshot.pods.values():
        groups[kind_of(pod)][_text(pod_record(pod, recording.pools))] += 1
    return groups


def _events(snapshot: Snapshot, phase: str) -> Groups:
    """Return the events by kind of pod and reason, each once per pod.

    How often an attempt failed before the last state, and its counts at that moment, depend on
    timing. Left out are the early pod's failures while nodes were added one by one, how often it
    and pods in error were tried, and the text of failures in the last phase.
    """
    groups: Groups = defaultdict(Counter)
    seen = set()
    for event in snapshot.events:
        name = event["regarding"]["name"]
        kind = name.rpartition("-")[0]
        record = event_record(event, snapshot.pods)
        if event["reason"] == "FailedScheduling":
            if kind == EARLY.name and phase != NO_NODES:
                continue
            if phase == FREED or kind == EARLY.name or kind in ERRORS:
                record.pop("series", None)
            if phase == FREED:
                del record["note"]
        text = _text(record)
        if (name, text) not in seen:
            seen.add((name, text))
            groups[f"{kind}: {event['reason']}"][text] += 1
    return groups


def _compare_groups(result: Compared, phase: str, about: str, peer: Groups, ours: Groups) -> None:
    for kind in sorted(peer.keys() | ours.keys()):
        theirs, mine = peer.get(kind, Counter()), ours.get(kind, Counter())
        result.values += sum(len(flat(json.loads(text))) for text in theirs | mine)
        if theirs == mine:
            continue
        left = list((mine - theirs).elements())
        alone = []
        for text in (theirs - mine).elements():
            first = json.loads(text)
            nearest = min(left, key=lambda other: _distance(first, json.loads(other)), default=None)
            if nearest is None:
                alone.append(text)
                continue
            left.remove(nearest)
            _compare_records(result, phase, about, kind, first, json.loads(nearest))
        for path, peer_side, our_side in (("+", alone, []), ("-", [], left)):
            if peer_side or our_side:
                values = _brief(Counter(peer_side)), _brief(Counter(our_side))
                result.differences.append(Difference(phase, about, kind, path, *values))


def _distance(first: Any, second: Any) -> int:
    theirs, mine = flat(first), flat(second)
    return sum(
        theirs.get(path, ABSENT) != mine.get(path, ABSENT) for path in theirs.keys() | mine.keys()
    )


def _compare_records(
    result: Compared, phase: str, about: str, kind: str, peer: Any, ours: Any
) -> None:
    theirs, mine = flat(peer), flat(ours)
    result.differences += [
        Difference(phase, about, kind, path, theirs.get(path, ABSENT), mine.get(path, ABSENT))
        for path in [*theirs, *(path for path in mine if path not in theirs)]
        if theirs.get(path, ABSENT) != mine.get(path, ABSENT)
    ]


Families = dict[str, FamilyText]


def _compare_metrics(result: Compared, phase: str, peer: Families, ours: Families) -> None:
    counted = LASTING if phase == FREED else LASTING | PASSING
    names = sorted(name for name in peer.keys() | ours.keys() if name.startswith("scheduler_"))
    for name in names:
        theirs, mine = peer.get(name), ours.get(name)
        if theirs is None or mine is None:
            # A metric without a value is not shown: only at the end can one be missing.
            if phase == FREED:
                result.values += 1
                sides = ("(there)" if theirs else ABSENT, "(there)" if mine else ABSENT)
                result.differences.append(Difference(phase, "metric", name, "", *sides))
            continue
        facts: dict[str, tuple[Any, Any]] = {
            "type": (theirs.kind, mine.kind),
            "labels": (sorted(theirs.label_names), sorted(mine.label_names)),
            "buckets": (list(theirs.bounds), list(mine.bounds)),
        }
        if name in counted:
            first, second = theirs.by(*counted[name]), mine.by(*counted[name])
            for key in sorted(first.keys() | second.keys()):
                facts[f"{{{','.join(key)}}}"] = (first.get(key, 0.0), second.get(key, 0.0))
        if name in NAMED:
            first, second = theirs.by(*NAMED[name]), mine.by(*NAMED[name])
            for key in sorted(first.keys() | second.keys()):
                there = ["(there)" if side.get(key) else ABSENT for side in (first, second)]
                facts[f"{{{','.join(key)}}}"] = (there[0], there[1])
        result.values += len(facts)
        result.differences += [
            Difference(phase, "metric", name, what, *sides)
            for what, sides in facts.items()
            if sides[0] != sides[1]
        ]


# Metrics whose values must agree, summed by these labels: always, and while no pod was retried.
LASTING: dict[str, tuple[str, ...]] = {
    "scheduler_pending_pods": ("queue",),
    "scheduler_unschedulable_pods": ("plugin", "profile"),
    "scheduler_cache_size": ("type",),
    "scheduler_pod_scheduling_attempts": (),
}
PASSING: dict[str, tuple[str, ...]] = {
    "scheduler_schedule_attempts_total": ("result", "profile"),
    "scheduler_pod_scheduling_sli_duration_seconds": ("attempts",),
    "scheduler_scheduling_attempt_duration_seconds": ("result", "profile"),
    "scheduler_queue_incoming_pods_total": ("queue", "event"),
}
# Metrics that must have the same values of labels; how often depends on how the work is cut.
NAMED: dict[str, tuple[str, ...]] = {
    "scheduler_framework_extension_point_duration_seconds": ("extension_point", "status"),
    "scheduler_plugin_evaluation_total": ("plugin", "extension_point"),
}


def _text(record: Any) -> str:
    return json.dumps(record, sort_keys=True)


def _brief(records: Counter[str]) -> Any:
    """Return the three most frequent records with their numbers, as plain data."""
    return [{"times": n, "record": json.loads(text)} for text, n in records.most_common(3)]
