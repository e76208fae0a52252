"""Decisions that are kept for good: chosen so that few of them show much, and trimmed to what counts.

The recorded ones stand in `recorded/` and run in the default suite without any real program.
"""

import re
from pathlib import Path
from typing import Any

import msgspec

from tests.differential.case import Case, Decision
from tests.differential.kinds import Manifest

MOST_BYTES = 9_000
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
    """Keeps, of all decisions that it is shown, the smallest that shows something new."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, Decision]] = {}

    def see(self, case: Case, one: Decision) -> None:
        """Look at a decision on which both sides agree."""
        kept = trimmed(one)
        size = len(msgspec.json.encode(kept))
        for mark in _marks(case, one) if size <= MOST_BYTES else ():
            if mark not in self._kept or size < self._kept[mark][0]:
                self._kept[mark] = (size, kept)

    def write(self, folder: Path, source: Path) -> None:
        """Write the kept decisions, one per line, and the configurations they were made under."""
        folder.mkdir(parents=True, exist_ok=True)
        unique = {one.id: one for _, one in self._kept.values()}
        lines = [msgspec.json.encode(one) for _, one in sorted(unique.items())]
        (folder / "decisions.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
        names = sorted({one.configuration for one in unique.values()})
        configurations = {name: msgspec.json.decode((source / name).read_bytes()) for name in names}
        (folder / "configurations.json").write_bytes(
            msgspec.json.format(msgspec.json.encode(configurations)) + b"\n"
        )


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


def _marks(case: Case, one: Decision) -> set[str]:
    """Return what a decision shows: outcomes by family and profile, reasons, scores that differ."""
    peer = one.peer
    kind = f"{peer.result}{' with victims' if peer.victims else ''}"
    marks = {f"{kind} in {family}" for family in case.families}
    marks.add(f"{kind} by {one.configuration} {one.pod['spec']['schedulerName']}")
    marks |= {f"reason {part}" for part in re.split(r"[.,:] ", re.sub(r"\d+", "N", peer.message))}
    for plugin in {plugin for row in peer.scores.values() for plugin in row}:
        values = {row.get(plugin) for row in peer.scores.values()}
        if len(values) > 1:
            marks.add(f"{plugin} with {len(values)} values in {one.configuration}")
    nominated = sum(bool(obj.get("status", {}).get("nominatedNodeName")) for obj in one.objects)
    marks.add(f"{kind} beside {nominated} nominated")
    return marks
