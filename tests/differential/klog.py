"""Read kube-scheduler's log: lines into messages with fields, messages into attempts.

Only the verbose log shows the real scheduler's scores per node and plugin, the number of nodes that
it evaluated, and its victims per node. `Follower` reads a growing file; it does not use the API
server.
"""

import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import msgspec

_HEAD = re.compile(r'^[IWE]\d{4} \S+ +\d+ ([\w.]+):\d+\] "((?:[^"\\]|\\.)*)"(.*)$')
_FIELD = re.compile(r' (\w[\w ]*)=("(?:[^"\\]|\\.)*"|\[\{.*?\}\]|\S+)')

# Files whose messages are read, and how verbose they have to be for that.
VERBOSITY = (
    "--vmodule=schedule_one*=10,eventhandlers=5,scheduling_queue=5,preemption=10,"
    "default_preemption=10,executor=5"
)
VICTIM = "Pod is a potential preemption victim on node"
# Since 1.37 one message names the preemptor and all victims on a node.
VICTIMS = "Pods are potential preemption victims on node"


class Attempted(msgspec.Struct):
    """One scheduling attempt of one pod, with the data in the log."""

    scores: dict[str, dict[str, int]] = {}
    totals: dict[str, int] = {}
    evaluated: int = 0
    feasible: int = 0
    node: str = ""
    error: str = ""
    is_rejected: bool = False
    plugins: list[str] = []
    candidates: dict[str, list[str]] = {}
    target: str = ""
    victims: int = 0
    is_reported: bool = False
    nominated: str | None = None  # None if the attempt leaves the nomination unchanged


class Follower:
    """Follows a log file: attempts by pod, and how often an event was seen.

    `seen` is by kind of event ("Add scheduled pod") and key of the object.
    """

    def __init__(self, file: Path) -> None:
        self._file = file.open(errors="replace")
        self._rest = ""
        self.attempts: dict[str, list[Attempted]] = defaultdict(list)
        self.order: list[str] = []
        self.seen: Counter[tuple[str, str]] = Counter()
        self.preempted: set[str] = set()

    def close(self) -> None:
        """Stop reading."""
        self._file.close()

    def forget(self) -> None:
        """Reset the count."""
        self.attempts.clear()
        self.order.clear()
        self.seen.clear()
        self.preempted.clear()

    def read(self) -> None:
        """Read the lines written since the last call."""
        text = self._rest + self._file.read()
        *lines, self._rest = text.split("\n")
        for line in lines:
            found = _HEAD.match(line)
            if found is not None:
                self._take(found[1], found[2], fields(found[3]))

    def _take(self, file: str, message: str, values: dict[str, Any]) -> None:
        if file == "eventhandlers.go":
            about = message.replace(" event for", "")
            self.seen[(about, str(values.get("pod", values.get("node"))))] += 1
            return
        pod = values.get("pod", values.get("preemptor", ""))
        if message == VICTIM and self.order:
            # Names the victim only; there is one attempt at a time.
            found = self.attempts[self.order[-1]][-1].candidates
            found.setdefault(values["node"], []).append(pod)
            return
        if message == VICTIMS and self.attempts.get(pod):
            victims = [f"{one['namespace']}/{one['name']}" for one in json.loads(values["pods"])]
            self.attempts[pod][-1].candidates.setdefault(values["node"], []).extend(victims)
            return
        if message == "Attempting to schedule pod":
            self.attempts[pod].append(Attempted())
            self.order.append(pod)
        if message in {
            "Async Preemption finished completely",
            "Error happened during async preemption",
        }:
            self.preempted.add(pod)
        if not self.attempts.get(pod):
            return
        _learn(self.attempts[pod][-1], message, values)


def _learn(attempt: Attempted, message: str, values: dict[str, Any]) -> None:
    """Process one message about an attempt."""
    match message:
        case "Plugin scored node for pod":
            row = attempt.scores.setdefault(values["node"], {})
            row[values["plugin"]] = int(values["score"])
        case "Calculated node's final score for pod":
            attempt.totals[values["node"]] = int(values["score"])
        case "Successfully bound pod to node":
            attempt.node = values["node"]
            attempt.evaluated = int(values["evaluatedNodes"])
            attempt.feasible = int(values["feasibleNodes"])
        case "Unable to schedule pod; no fit; waiting":
            attempt.error, attempt.is_rejected = values["err"], True
        case "Unable to schedule pod; no nodes are registered to the cluster; waiting":
            attempt.error, attempt.is_rejected = "no nodes available to schedule pods", True
        case "Error scheduling pod; retrying":
            attempt.error = values["err"]
        case "Pod moved to an internal scheduling queue" if "unschedulable plugins" in values:
            attempt.plugins = sorted(json.loads(values["unschedulable plugins"]))
        case "the target node for the preemption is determined":
            attempt.target = values["node"]
        case "Start the preemption asynchronously":
            attempt.victims = int(values["numVictimsToDelete"])
        case "Updating pod condition and nominated node name":
            attempt.is_reported = True
            if values.get("nominatingMode") == "1":
                attempt.nominated = values["nominatedNodeName"]


def fields(text: str) -> dict[str, Any]:
    """Return the key=value part of a line; quoted values are unquoted."""
    found = {}
    for key, value in _FIELD.findall(text):
        found[key] = _unquoted(value) if value.startswith('"') else value
    return found


def _unquoted(text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError:
        return text[1:-1]
