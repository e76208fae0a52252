"""The kinds of jobs of the helper process: from JSON to JSON, one function each.

`KINDS` is the table; `warm` loads modules so that the first job is as fast as the next. A job
raises InputError for an invalid payload; any other exception is an internal error.
"""

from collections.abc import Callable

import msgspec

from scheduler.groups.problem.instance import Instance, Leaf, Level, LevelRule
from scheduler.groups.solver import questions
from scheduler.groups.solver.solve import solve
from scheduler.workers.paths import PathLinks, shortest

Job = Callable[[bytes], tuple[bytes, bytes]]


def run_question(payload: bytes) -> tuple[bytes, bytes]:
    """Answer a scheduler.groups.solver.questions.Question with its `Solution`."""
    return msgspec.json.encode(questions.answer(questions.read(payload))), b""


def run_shortest_paths(payload: bytes) -> tuple[bytes, bytes]:
    """Run a `PathLinks` job.

    Return the number of nodes and their int64 cost matrix (-1: no path).
    """
    job = msgspec.json.decode(payload, type=PathLinks)
    costs = shortest(job)
    return msgspec.json.encode({"nodes": job.nodes}), costs.tobytes()


def warm() -> None:
    """Load the solver and run it once."""
    level = Level("node", LevelRule("spread"))
    solve(Instance((level,), (Leaf(("a",), 2), Leaf(("b",), 2)), 3), solver="CPSAT")


KINDS: dict[str, Job] = {
    "question": run_question,
    "shortest_paths": run_shortest_paths,
}
