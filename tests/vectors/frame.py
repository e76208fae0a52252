"""The frame of the vector tests: the files, the files for later, and the cases.

It knows no single case. A runner module (one per folder) names in `RUNNERS` its files and their
functions; a file that no runner names fails, unless it is in `LATER`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"

# Files, or the cases of one plugin in a file of several, whose subject does not exist yet. An entry
# is removed with the commit that adds the plugin, and a test checks that.
LATER: dict[str, tuple[str, ...]] = {}


@dataclass(frozen=True)
class Vector:
    """One case: its origin, its list, its data, and the file around it."""

    folder: str
    file: str
    section: str
    case: dict[str, Any]
    document: dict[str, Any]

    @property
    def path(self) -> str:
        """Return `folder/file`."""
        return f"{self.folder}/{self.file}"

    @property
    def id(self) -> str:
        """Return `folder/file:case-id`."""
        name = (
            self.case.get("id") or self.case.get("name") or self.case.get("expression", "unnamed")
        )
        prefix = "" if self.section == "cases" else f"{self.section}/"
        return f"{self.path}:{prefix}{name}"

    @property
    def plugin(self) -> str:
        """Return the plugin that the case is about: its own, or the file's."""
        name: str = self.case.get("plugin", self.document["plugin"])
        return name

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Return the parts that have to exist before the case can run; empty when it can."""
        missing = LATER.get(self.path, ())
        if "plugin" in self.case:
            return tuple(name for name in missing if name == self.case["plugin"])
        return missing


def files(root: Path) -> list[str]:
    """Return all vector files below `root` as `folder/file`."""
    return sorted(path.relative_to(root).as_posix() for path in root.glob("*/*.json"))


def vectors(root: Path, path: str) -> Iterator[Vector]:
    """Yield the cases of one file, of all its lists."""
    folder, _, file = path.partition("/")
    found = json.loads((root / path).read_text())
    document = {"cases": found} if isinstance(found, list) else found
    if "pending" in document:
        # Recorded from a peer: the whole file is one case.
        yield Vector(folder, file, "cases", document, document)
        return
    for section, cases in document.items():
        if isinstance(cases, list):
            for case in cases:
                yield Vector(folder, file, section, case, document)


# Decisions of the policy by which we differ from a peer; docs/compatibility.md has the reasons.
DECISIONS = {
    "D2": "an object that is missing, or a node, never ends an attempt",
    "D4b": "the order of the queue is an order: groups and pods are entities with keys",
    "D6": "calculated costs stand in status, the user's tables are left alone",
    "D7": "what is not measured is not free, and a path listed in one direction serves both",
    "D8": "the AppGroup of the pod's own namespace comes first",
    "D9": "workloads are known by selector or name, unknown ones go last",
    "D10": "every workload gets an index, and the user's spec is never written to",
    "D15": "a deleted pod gives back at once what was reserved for it in NUMA zones",
    "D18": "sidecars, pod-level requests and overhead count by the standard rule everywhere",
    "D19": "numbers of a group's rules always bind, whatever the text says of soft ones",
    "D32": "devices: counters are those of a driver's pool and hold for devices published no "
    "more, distinct "
    "attributes stay distinct, All means all devices of complete pools, admin access takes nothing",
    "D17": "a percentile that is not reported is replaced by a figure that is",
}


def deviation(number: str) -> None:
    """Report that a case differs by a decision; the caller asserts the own result."""
    if number not in DECISIONS:
        raise ValueError(f"{number} is no decision by which we differ from a peer")
