"""Collects the decisions of a run and writes them down: a summary, and a file per difference."""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from tests.differential.case import Case, Decision
from tests.differential.kinds import Manifest
from tests.differential.recording import Recorder

MOST_KEPT = 200


class Report:
    """The results so far; all files are written below `folder`."""

    def __init__(self, folder: Path, seed: str) -> None:
        self._folder = folder
        self._seed = seed
        self._counts: Counter[str] = Counter()
        self._families: Counter[str] = Counter()
        self._results: Counter[str] = Counter()
        self._known: Counter[str] = Counter()
        self._paths: Counter[str] = Counter()
        self._unknown: list[Decision] = []
        self._complaints: list[str] = []
        self.recorder = Recorder()
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("difference-*.json"):
            old.unlink()

    def configuration(self, block: int, config: Manifest) -> str:
        """Write a configuration and return its file's name."""
        name = f"configuration-{self._seed}-{block}.json"
        (self._folder / name).write_bytes(_pretty(config))
        return name

    def keep(self, case: Case) -> None:
        """Write a case that was made smaller."""
        name = case.id.replace("/", "-")
        (self._folder / f"case-{name}.json").write_bytes(_pretty(case))

    def complain(self, case: Case, error: Exception) -> None:
        """Keep a case that could not run."""
        self._complaints.append(f"{case.id}: {str(error)[:400]}")

    def add(self, case: Case, decisions: list[Decision], notes: Counter[str]) -> None:
        """Add the result of a case."""
        self._counts["cases"] += 1
        self._counts.update(notes)
        self._families.update(case.families)
        for one in decisions:
            self._counts["decisions"] += 1
            kind = one.peer.result
            if one.peer.victims:
                kind = "Unschedulable, with victims"
            elif kind == "Scheduled" and one.peer.scores:
                kind = "Scheduled, with scores"
            self._results[kind] += 1
            if one.differences:
                self._differ(one)
            else:
                self.recorder.see(case.families, one)

    def progress(self) -> str:
        """Return the progress of the run in one line."""
        cases, decisions = self._counts["cases"], self._counts["decisions"]
        return f"{cases} cases, {decisions} decisions, {len(self._unknown)} unexplained"

    def write(self, seconds: float) -> int:
        """Write the summary; return 0 if no difference is unexplained."""
        summary = {
            "seed": self._seed,
            "seconds": round(seconds, 1),
            **dict(self._counts),
            "results": dict(self._results.most_common()),
            "casesByFamily": dict(self._families.most_common()),
            "unexplained": len(self._unknown),
            "unexplainedPaths": dict(self._paths.most_common(30)),
            "explained": dict(self._known.most_common()),
            "notPlayed": self._complaints[:50],
        }
        (self._folder / "summary.json").write_bytes(_pretty(summary))
        text = self._text(summary)
        (self._folder / "summary.md").write_text(text)
        print(text)
        return 1 if self._unknown else 0

    def _differ(self, one: Decision) -> None:
        if one.known:
            self._counts["explained differences"] += 1
            self._known[one.known] += 1
            return
        self._unknown.append(one)
        if len(self._unknown) <= MOST_KEPT:
            name = one.id.replace("/", "-")
            (self._folder / f"difference-{name}.json").write_bytes(_pretty(one))
        for path in one.differences:
            parts = path.split("/")
            self._paths["/".join((parts[0], *parts[2:]))] += 1

    def _text(self, summary: Manifest) -> str:
        lines = ["# Decisions of kube-scheduler and ours", ""]
        lines += [
            f"- {name}: {value}" for name, value in summary.items() if not isinstance(value, list)
        ]
        for one in self._unknown[:MOST_KEPT]:
            lines += ["", f"## {one.id} ({one.pod['spec'].get('schedulerName')})", ""]
            lines += [
                f"- {path}: {_brief(peer)} | {_brief(ours)}"
                for path, (peer, ours) in list(one.differences.items())[:8]
            ]
        return "\n".join([*lines, "", *self._complaints[:10], ""])


def _brief(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 400 else f"{text[:400]} …"


def _pretty(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"
