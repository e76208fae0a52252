"""A group for which the presolve of OR-Tools 9.15 ended the process: the solver now decides it."""

import subprocess
import sys

import msgspec

from scheduler.groups.problem.roles import GroupProblem
from tests.property import rolegroups

# Found by the invariant of obstacles; a pod of c3 is on the last leaf already.
GROUP = b"""{
"roles": [{"count": 1, "request": [2], "slots": [4, 0, 1, 4]},
          {"count": 1, "request": [3], "slots": [4, 4, 1, 4]},
          {"count": 1, "request": [3], "slots": [4, 4, 4, 4]},
          {"count": 2, "request": [2], "slots": [1, 2, 4, 4]}],
"free": [[13], [14], [-1], [1]],
"levels": [{"name": "l0", "rule": {}}, {"name": "l1", "rule": {}}, {"name": "l2", "rule": {}}],
"paths": [["u0", "u0", "u0"], ["u0", "u0", "u1"], ["u1", "u0", "u0"], ["u1", "u0", "u1"]],
"minimum": 5, "fixed": [0, 0, 0, 1],
"classes": [{"name": "c0", "roles": [0]},
            {"name": "c1", "roles": [1], "minimum": 1, "maximum": 1,
             "rules": [{"level": 0, "rule": {"partitions": 1}},
                       {"level": 1, "rule": {"hard": true}}]},
            {"name": "c2", "roles": [2], "maximum": 1, "fixed": [0, 0, 0, 0]},
            {"name": "c3", "roles": [3], "minimum": 1, "maximum": 2, "fixed": [0, 0, 0, 1]}],
"costs": {"steps": [2, 1, 1]}, "unwished": [0, 1, 2]}"""
SOLVE = """
import sys, msgspec
from scheduler.groups.solver.roles import heterogeneous
from scheduler.groups.problem.instance import SolveLimits
from scheduler.groups.problem.roles import GroupProblem
problem = msgspec.json.decode(sys.stdin.buffer.read(), type=GroupProblem)
found = heterogeneous.solve(problem, SolveLimits(stage_s=20.0, total_s=60.0))
print(found.outcome, found.optimal)
"""


def test_the_result_is_that_of_enumeration_and_the_process_survives():
    """The test runs in a process of its own, which an abort in OR-Tools would end."""
    done = subprocess.run(
        [sys.executable, "-c", SOLVE], input=GROUP, capture_output=True, timeout=120, check=False
    )

    assert (0, b"infeasible True\n") == (done.returncode, done.stdout), done.stderr[-500:]
    assert next(rolegroups.placements(msgspec.json.decode(GROUP, type=GroupProblem)), None) is None
