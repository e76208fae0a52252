"""Compares two recordings: what pods, events and metrics say on either side, kind by kind.

Pods of one kind are alike, so their records are compared as a whole: it does not matter which of two
equal pods got the last free place. Every value that is not the same on both sides is a `Difference`;
whether one is known, and why, is in known.py.
"""

import json
from collections import Counter, defaultdict
from typing import Any

import msgspec

from tests.real.canonical import event_record, flat, kind_of, pod_record
from tests.real.exposition import FamilyText, parse
from tests.real.playing import Recording, Snapshot

ABSENT = "(absent)"
MANY = "(several)"


class Difference(msgspec.Struct, frozen=True, omit_defaults=True):
    """One value that differs: where, what the peer has, what ours has, and why if that is known."""

    phase: str
    about: str
    kind: str
    path: str
    peer: Any
    ours: Any
    why: str = ""


class Compared(msgspec.Struct):
    """All differences, and how many values were compared at all."""

    values: int = 0
    differences: list[Difference] = []


def compare(peer: Recording, ours: Recording) -> Compared:
    """Compare everything in two recordings."""
    result = Compared(0, [])
    for phase, snapshot in peer.snapshots.items():
        other = ours.snapshots[phase]
        _compare_groups(result, phase, "pod", _pods(snapshot, peer.pools), _pods(other, ours.pools))
        events = _events(snapshot, phase), _events(other, phase)
        _compare_groups(result, phase, "event", *events)
        _compare_metrics(result, phase, parse(snapshot.metrics), parse(other.metrics))
    return result


Groups = dict[str, Counter[str]]


def _pods(snapshot: Snapshot, pools: dict[str, str]) -> Groups:
    groups: Groups = defaultdict(Counter)
    for pod in snapshot.pods.values():
        groups[kind_of(pod)][_text(pod_record(pod, pools))] += 1
    return groups


def _events(snapshot: Snapshot, phase: str) -> Groups:
    """Return the events by kind of pod and reason, each once per pod.

    How often an attempt failed on the way to the last state, and what it counted in that moment, is
    a matter of timing: in the last phase a failure is compared without its text and its number.
    """
    groups: Groups = defaultdict(Counter)
    seen = set()
    for event in snapshot.events:
        name = event["regarding"]["name"]
        kind = name.rpartition("-")[0]
        record = event_record(event, snapshot.pods)
        if phase == "freed" and event["reason"] == "FailedScheduling":
            record = {k: v for k, v in record.items() if k not in ("note", "series")}
            managers = record["metadata"]["managedFields"]
            record["metadata"]["managedFields"] = [
                e for e in managers if e["operation"] == "Update"
            ]
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
        only_theirs, only_mine = theirs - mine, mine - theirs
        if len(only_theirs) == len(only_mine) == 1:
            first, second = json.loads(next(iter(only_theirs))), json.loads(next(iter(only_mine)))
            _compare_records(result, phase, about, kind, first, second)
            if only_theirs.total() == only_mine.total():
                continue
        values = (_brief(only_theirs), _brief(only_mine))
        result.differences.append(Difference(phase, about, kind, "*", *values))


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
    names = sorted(name for name in peer.keys() | ours.keys() if name.startswith("scheduler_"))
    for name in names:
        theirs, mine = peer.get(name), ours.get(name)
        if theirs is None or mine is None:
            result.values += 1
            sides = ("(there)" if theirs else ABSENT, "(there)" if mine else ABSENT)
            result.differences.append(Difference(phase, "metric", name, "", *sides))
            continue
        facts: dict[str, tuple[Any, Any]] = {
            "type": (theirs.kind, mine.kind),
            "labels": (sorted(theirs.label_names), sorted(mine.label_names)),
            "buckets": (list(theirs.bounds), list(mine.bounds)),
        }
        for labels in COUNTED.get(name, ()):
            first, second = theirs.by(*labels), mine.by(*labels)
            for key in sorted(first.keys() | second.keys()):
                facts[f"{{{','.join(key)}}}"] = (first.get(key, 0.0), second.get(key, 0.0))
        result.values += len(facts)
        result.differences += [
            Difference(phase, "metric", name, what, *sides)
            for what, sides in facts.items()
            if sides[0] != sides[1]
        ]


# Metrics whose values must agree, summed by these labels.
COUNTED: dict[str, tuple[tuple[str, ...], ...]] = {
    "scheduler_schedule_attempts_total": (("result", "profile"),),
    "scheduler_pod_scheduling_attempts": ((),),
    "scheduler_pod_scheduling_sli_duration_seconds": (("attempts",),),
    "scheduler_scheduling_attempt_duration_seconds": (("result", "profile"),),
    "scheduler_pending_pods": (("queue",),),
    "scheduler_unschedulable_pods": (("plugin", "profile"),),
    "scheduler_cache_size": (("type",),),
    "scheduler_queue_incoming_pods_total": (("queue", "event"),),
}


def _text(record: Any) -> str:
    return json.dumps(record, sort_keys=True)


def _brief(records: Counter[str]) -> Any:
    """Return records with their numbers as plain data, not more than a reader can take."""
    return [{"times": n, "record": json.loads(text)} for text, n in records.most_common(3)]
