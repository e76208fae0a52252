"""A cluster has the same final state in `simulate` and under the daemon.

`python -m tests.agreement.outcomes` runs 500 cases.
"""

from pathlib import Path

import pytest

from tests.agreement.outcomes import compare, objection


@pytest.mark.parametrize("seed", range(2))
async def test_the_daemon_and_simulate_place_the_same_pods(seed: int, tmp_path: Path):
    """Both place the pods of a snapshot on the same nodes: pods, gangs, priorities, preemption and
    workloads.
    """
    assert not (await compare(seed, tmp_path)).startswith("unexplained")


def test_a_difference_is_explained_by_an_order_of_decisions_or_not_at_all():
    """Another outcome is accepted only if an order of decisions explains it.

    A partial gang, a pending pod that fits, or a missing pod of high priority is not accepted,
    unless its spread constraints reject it: later pods decide which domain has the fewest.
    """
    wanted = {"p0": "n0", "p1": "", "g0-0": "n1", "g0-1": "n1"}
    priorities = {"p0": 100}

    assert "" == objection(wanted, {**wanted, "p0": "n1"}, priorities, at_rest=True)
    assert "changes it" in objection(wanted, {**wanted, "p0": "n1"}, priorities, at_rest=False)
    assert "in part: g0" == objection(wanted, {**wanted, "g0-1": ""}, priorities, at_rest=True)
    fewer = objection(wanted, {**wanted, "p0": ""}, priorities, at_rest=True)
    assert "1 fewer of priority 100" == fewer
    lost = {**wanted, "p0": ""}
    assert "" == objection(wanted, lost, priorities, at_rest=True, by_spread={"p0"})
    assert fewer == objection(wanted, lost, priorities, at_rest=True, by_spread={"p1"})
