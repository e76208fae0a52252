"""The engine with the model API server, and all faults between them.

Hypothesis chooses the moves; the invariants are in `watchdog` (at every moment) and in `Rig.settle`
(after the faults). The seeded runs of tests/faults make the same moves in greater number.
"""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.property.moves import WEIGHTED, Move, add_node, create_pod
from tests.property.rig import Rig

COUNTS = st.integers(1, 4)


class EngineMachine(RuleBasedStateMachine):
    """One run of an engine and its surroundings."""

    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig()
        self.failed = False

    @initialize(data=st.data(), nodes=COUNTS, pods=COUNTS)
    def begin(self, data: Any, nodes: int, pods: int) -> None:
        """Start with some nodes and pods."""
        for _ in range(nodes):
            self._make(add_node, data)
        for _ in range(pods):
            self._make(create_pod, data)
        for kind in ("Node", "Pod"):
            self.rig.watch(kind)

    @rule(data=st.data(), move=st.sampled_from(WEIGHTED))
    def move(self, data: Any, move: Move) -> None:
        """Make one move."""
        self._make(move, data)

    def _make(self, move: Move, data: Any) -> None:
        self.failed = True
        move(self.rig, lambda n: int(data.draw(st.integers(0, n - 1))))
        self.failed = False

    def teardown(self) -> None:
        """End the faults: the rig must settle, and no pod may be lost."""
        if not self.failed:
            self.rig.settle()


TestEngine = EngineMachine.TestCase
TestEngine.settings = settings(max_examples=20, stateful_step_count=60)


@pytest.mark.long
class TestEngineLong(EngineMachine.TestCase):  # type: ignore[valid-type,misc]
    """The state machine with longer runs and other examples each time."""

    settings = settings(
        max_examples=1000, stateful_step_count=100, derandomize=False, deadline=None
    )
