"""The kinds of jobs that the helper process knows: from JSON to JSON, one function each.

`KINDS` is the table; `warm` does once what makes the first job as fast as the next. A job raises
InputError for a payload that makes no sense; everything else is a fault of ours.
"""

from collections.abc import Callable

import msgspec

from scheduler.groups.problem.instance import Instance, Leaf, Level, LevelRule
from scheduler.groups.solver import questions
from scheduler.groups.solver.solve import solve
from scheduler.workers.paths import PathLinks, shortest

Job = Callable[[bytes], tuple[bytes, bytes]]


def run_question(payload: bytes) -> tuple[bytes, bytes]:
    """Answer a scheduler.groups.solver.questions.Question; the answer is its `Solution`."""
    return msgspec.json.encode(questions.answer(questions.read(payload))), b""


def run_shortest_paths(payload: bytes) -> tuple[bytes, bytes]:
    """Run a `PathLinks` job: the answer is the number of nodes, the blob their int64 cost matrix, -1 for no path."""
    job = msgspec.json.decode(payload, type=PathLinks)
    costs = shortest(job)
    return msgspec.json.encode({"nodes": job.nodes}), costs.tobytes()


def warm() -> None:
    """Load the solver and let it work once."""
    level = Level("node", LevelRule("spread"))
    solve(Instance((level,), (Leaf(("a",), 2), Leaf(("b",), 2)), 3), solver="CPSAT")


KINDS: dict[str, Job] = {
    "question": run_question,
    "shortest_paths": run_shortest_paths,
}
