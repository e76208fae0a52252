"""A case and its outcome: what is generated, and what a scheduler made of one of its pods."""

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
    """What one attempt came to, on either side.

    `scores` are weighted, by node and plugin. `best` are all nodes that were equally good, known of
    ours only. `candidates` are the nodes where evicting these pods would make room. `claims` is
    what those claims got that had nothing before.
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
    """One decision with all that it was made on: enough to repeat it without the case.

    `objects` are what the API server held when `pod` came; `configuration` is the name of the file
    that both schedulers read, `kubernetes` the minor release of the API server (empty: 1.36),
    `feature_gates` what differs from that release's defaults.
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
