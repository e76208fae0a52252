"""What is counted of the solver's answers."""

import pytest

from scheduler.base.meters import Meters
from scheduler.daemon.solving import Solving, gap_ratio
from scheduler.engine.effects import Solve
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
    """A placement has a gap, a refusal has none."""
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


class Refusing(WorkerPool):
    """A pool that must not be needed."""

    async def start(self) -> None:
        raise AssertionError("another process was started")


async def test_a_small_question_needs_no_other_process():
    """It is answered on the spot, as the other process would."""
    question = Place(Instance((Level("node", LevelRule("spread")),), LEAVES, 3))
    reply, response = await Solving(Meters(), Refusing()).carry(Solve(1, question, 1.0), 0.0)

    assert response.ok
    assert answer(question).placed.counts == tuple(reply.body["placed"]["counts"])
