"""A generated case, and a scheduler's outcome for one of its pods."""

from typing import Any

import msgspec

from tests.differential.kinds import Manifest


class Case(msgspec.Struct, rename="camel"):
    """A small cluster and the pods that are scheduled on it one after the other.

    A Pod among the `objects` with a deletionTimestamp is deleted after it was created; statuses are
    written after creation. `families` are the features that the generator was to use.
    """

    id: str
    families: list[str]
    objects: list[Manifest]
    pods: list[Manifest]


class Outcome(msgspec.Struct, rename="camel", omit_defaults=True):
    """The outcome of one attempt, on either side.

    `scores` are weighted, by node and plugin. `best` are all equally good nodes, known for ours
    only. `candidates` are the nodes where evicting these pods frees enough capacity. `claims` are
    the allocations of claims that had none before.
    """

    result: str
    node: str = ""
    best: list[str] = []
    feasible: int = 0
    evaluated: int = 0
    scores: dict[str, dict[str, int]] = {}
    totals: dict[str, int] = {}
    message: str = ""
    plugins: list[str] = []
    nominated: str | None = None
    candidates: dict[str, list[str]] = {}
    victims: list[str] = []
    claims: list[Manifest] = []


class Decision(msgspec.Struct, rename="camel", omit_defaults=True):
    """One decision with all its inputs: enough to repeat it without the case.

    `objects` are those of the API server when `pod` was created; `configuration` is the name of the
    file that both schedulers read, `kubernetes` the minor release of the API server (empty: 1.36),
    `feature_gates` the differences from that release's defaults.
    """

    id: str
    configuration: str
    objects: list[Manifest]
    pod: Manifest
    peer: Outcome
    ours: Outcome | None = None
    differences: dict[str, Any] = {}
    known: str = ""
    kubernetes: str = ""
    feature_gates: dict[str, bool] = {}
