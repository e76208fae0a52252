"""Decisions kept as regression cases: chosen so that few of them show much, and reduced to the
relevant objects.

The recorded ones are in `recorded/` and run in the default suite without any real program.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from tests.differential.case import Decision
from tests.differential.kinds import Manifest

MOST_BYTES = 12_000
_WITHOUT_USE = {
    "terminationMessagePath",
    "terminationMessagePolicy",
    "imagePullPolicy",
    "dnsPolicy",
    "securityContext",
    "enableServiceLinks",
    "terminationGracePeriodSeconds",
    "resourceVersion",
    "generation",
    "qosClass",
    "lastProbeTime",
    "lastTransitionTime",
    "imageID",
}


class Recorder:
    """Keeps, of all decisions that it receives, the smallest for each property that a decision can
    show.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, Decision]] = {}
        self._marks: dict[str, set[str]] = {}

    def see(self, families: list[str], one: Decision) -> None:
        """Process a decision on which both sides agree, in a case of these families."""
        kept = trimmed(one)
        size = len(msgspec.json.encode(kept))
        if size > MOST_BYTES:
            return
        self._marks[one.id] = _marks(families, one)
        for mark in self._marks[one.id]:
            if mark not in self._kept or size < self._kept[mark][0]:
                self._kept[mark] = (size, kept)

    def write(self, folder: Path, source: Path) -> None:
        """Write as few decisions as show all properties, and their profiles."""
        folder.mkdir(parents=True, exist_ok=True)
        decisions = self._fewest()
        lines = [msgspec.json.encode(one) + b"\n" for one in decisions]
        (folder / "decisions.jsonl").write_bytes(b"".join(lines))
        used = {
            (one.configuration, pod["spec"]["schedulerName"])
            for one in decisions
            # The nominations of pods count only where their profile is known.
            for pod in (one.pod, *(obj for obj in one.objects if obj["kind"] == "Pod"))
        }
        configurations = {}
        for name in sorted({name for name, _ in used}):
            whole = msgspec.json.decode((source / name).read_bytes())
            profiles = [p for p in whole["profiles"] if (name, p["schedulerName"]) in used]
            configurations[name] = whole | {"profiles": profiles}
        file = folder / "configurations.json"
        file.write_bytes(msgspec.json.encode(configurations) + b"\n")

    def _fewest(self) -> list[Decision]:
        """Return the kept decisions without those whose properties other ones have, largest
        first.
        """
        left = {one.id: (size, one) for size, one in self._kept.values()}
        shown = Counter(mark for name in left for mark in self._marks[name])
        for name in sorted(left, key=lambda name: (-left[name][0], name)):
            if all(shown[mark] > 1 for mark in self._marks[name]):
                shown.subtract(self._marks[name])
                del left[name]
        return [left[name][1] for name in sorted(left)]


def trimmed(one: Decision) -> Decision:
    """Return a decision without our side and without fields that no scheduler reads."""
    return Decision(
        one.id,
        one.configuration,
        [_trim(obj) for obj in one.objects if not _is_plain_namespace(obj)],
        _trim(one.pod),
        one.peer,
    )


def _is_plain_namespace(obj: Manifest) -> bool:
    return obj["kind"] == "Namespace" and str(obj["metadata"]["name"]).startswith("kube-")


def _trim(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _trim(item) for key, item in value.items() if key not in _WITHOUT_USE}
    if isinstance(value, list):
        return [_trim(item) for item in value]
    return value


def _marks(families: list[str], one: Decision) -> set[str]:
    """Return the properties that a decision shows: its outcome by family, reasons, scores that
    differ.
    """
    peer = one.peer
    kind = f"{peer.result}{' with victims' if peer.victims else ''}"
    marks = {f"{kind} in {family}" for family in families}
    plain = re.sub(r'"[^"]*"|\d+', "N", peer.message)
    marks |= {f"reason {part}" for part in re.split(r"[.,:] ", plain) if part}
    for plugin in {plugin for row in peer.scores.values() for plugin in row}:
        if len({row.get(plugin) for row in peer.scores.values()}) > 1:
            marks.add(f"{plugin} differs, {one.pod['spec']['schedulerName']}")
    nominated = any(obj.get("status", {}).get("nominatedNodeName") for obj in one.objects)
    if nominated:
        marks.add(f"{kind} beside a nominated pod")
    return marks
