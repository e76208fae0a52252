"""Questions and solutions are equal after a round trip to the helper process, as JSON."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.groups.problem.instance import Candidate, Instance, Leaf, Level, PreemptionInstance
from scheduler.groups.solver.questions import EvictQuestion, Place, Question, Solution, answer, read

LEVELS = (Level("node"),)
FULL = Instance(LEVELS, (Leaf(("a",), -1, (0,)), Leaf(("b",), -1, (1,))), 2, (1,))
QUESTIONS: tuple[Question, ...] = (
    Place(Instance(LEVELS, (Leaf(("a",), 2), Leaf(("b",), 2)), 3)),
    Place(Instance(LEVELS, (Leaf(("a",), 1),), 3)),
    EvictQuestion(PreemptionInstance(FULL, (Candidate("g", 0, 2, {0: (2,)}),))),
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_and_its_solution_come_through_as_they_are(question: Question):
    """Numbers as keys become texts in JSON and numbers again."""
    sent = read(msgspec.json.encode(question))
    found = answer(sent)
    back = msgspec.convert(msgspec.json.decode(msgspec.json.encode(found)), Solution, str_keys=True)

    assert question == sent
    assert found == back


def test_the_victims_are_found():
    """The group that uses the capacity is evicted."""
    found = answer(QUESTIONS[2])

    assert found.victims is not None
    assert {0: 1} == found.victims.evicted
