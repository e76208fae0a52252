"""`make bench`: the reported figures. Nothing is asserted about time."""

import pytest

from tests.perf import bench, decisions, solver, table

pytestmark = pytest.mark.perf


@pytest.mark.parametrize("workload", bench.REPORTED)
def test_beside_the_peer_and_the_bare_binder(workload):
    """Every contestant binds every pod; the table and a JSON file have the figures."""
    if bench.find_assets() is None:
        pytest.skip("needs a real kube-apiserver: run `make tools`")

    assert 0 == bench.main(["--workload", workload])


def test_speed_table():
    """Every row of the speed table can be measured, and the table states whether it reaches its
    goal.
    """
    assert 0 == table.main([])


def test_decisions_in_process():
    """Every pod gets a node and an event, over thousands of nodes that are all scored."""
    assert 0 == decisions.main(["--profile"])


def test_solver():
    """Groups and victims on random clusters of every size; proofs and gaps are counted."""
    assert 0 == solver.main(["--runs", "5"])
