"""Decisions of the real kube-scheduler, recorded once: both interfaces of Trellis give the same."""

from collections import Counter
from functools import cache
from pathlib import Path

import msgspec
import pytest

from tests.differential.again import repeated
from tests.differential.case import Decision
from tests.differential.ours import Ours

RECORDED = Path(__file__).parent / "recorded"
DECISIONS = [
    msgspec.json.decode(line, type=Decision)
    for line in (RECORDED / "decisions.jsonl").read_bytes().splitlines()
]


@cache
def under(configuration: str, release: str) -> Ours:
    """Return our side under a configuration on a release."""
    known = msgspec.json.decode((RECORDED / "configurations.json").read_bytes())
    return Ours(known[configuration], release)


@pytest.mark.parametrize("group", range(8))
def test_the_same_was_decided(group: int):
    """Best nodes, scores, messages, candidates and victims equal those recorded from
    kube-scheduler.
    """
    wrong = {
        one.id: repeated(one, under(one.configuration, one.kubernetes))
        for one in DECISIONS[group::8]
    }

    assert {} == {name: found for name, found in wrong.items() if found}


def test_the_recorded_ones_show_every_outcome():
    """A recording that lost its preemptions or its scores would prove little."""
    kinds = Counter(
        "victims" if one.peer.victims else "scores" if one.peer.scores else one.peer.result
        for one in DECISIONS
    )

    assert min(kinds[kind] for kind in ("victims", "scores", "Unschedulable")) >= 5
    assert min(kinds[kind] for kind in ("Scheduled", "Gated", "Error")) >= 1
