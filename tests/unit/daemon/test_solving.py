"""The counts of the solver's answers."""

import pytest

from scheduler.base.meters import Meters
from scheduler.daemon.solving import Solving
from scheduler.engine.effects import Solve
from scheduler.framework.calls import SolverCall
from scheduler.groups.cycle.inline import InlineSolver, gap_ratio
from scheduler.groups.problem.answer import SolvedStage
from scheduler.groups.problem.instance import Instance, Leaf, Level, LevelRule
from scheduler.groups.solver.questions import Place, answer
from scheduler.workers.pool import JobOutcome, WorkerPool

LEAVES = (Leaf(("a",), 2), Leaf(("b",), 2))


class InThisProcess(WorkerPool):
    """The pool's contract without a process: the same questions, the same answers."""

    async def start(self) -> None:
        """Do nothing."""

    async def run(self, kind: str, payload: object, limit_s: float) -> JobOutcome:
        import msgspec

        del kind, limit_s
        assert isinstance(payload, Place)
        return JobOutcome("done", msgspec.json.encode(answer(payload)))


@pytest.mark.parametrize(("size", "status"), [(3, "optimal"), (5, "infeasible")])
async def test_answers_are_counted_by_status(size: int, status: str):
    """A placement has a gap, a rejection has none."""
    meters = Meters()
    solving = Solving(meters, InThisProcess())
    question = Place(Instance((Level("node", LevelRule("spread")),), LEAVES, size))
    await solving.carry(Solve(1, question, 1.0), 0.0)

    (sample,) = meters.solver_solutions.samples()
    assert ("place", status) == (sample.labels[0], sample.labels[2])
    assert (status == "optimal") == bool(meters.solver_gap.samples())


@pytest.mark.parametrize(
    ("stages", "ratio"),
    [
        ((), 0.0),
        ((SolvedStage("rack", "units", 4, 4),), 0.0),
        ((SolvedStage("rack", "units", 4, 4), SolvedStage("node", "squares", -20, -25)), 0.25),
        ((SolvedStage("rack", "units", 0, -1),), 1.0),
        ((SolvedStage("rack", "units", 3, -(1 << 60)),), 1.0),
    ],
)
def test_the_gap_is_that_of_the_worst_stage(stages: tuple[SolvedStage, ...], ratio: float):
    """Proven stages have none; without any proof it is 1."""
    assert ratio == gap_ratio(stages)


@pytest.mark.parametrize(("size", "is_small"), [(3, True), (5, False)])
def test_small_questions_are_answered_within_the_turn(size: int, is_small: bool):
    """The inline answer equals that of the helper process and is counted; the search for a conflict
    stays with the process.
    """
    meters = Meters()
    question = Place(Instance((Level("node", LevelRule("spread")),), LEAVES, size))
    found = InlineSolver(meters).answer(SolverCall(question, 1.0))

    assert is_small is (found is not None) is bool(meters.solver_solutions.samples())
    if found is not None:
        assert answer(question).placed.counts == found.body.placed.counts
