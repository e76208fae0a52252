"""Members finish, fail and are lost in any order: the remaining group recovers if there is
capacity.
"""

import pytest

from tests.faults.jobrecovery import CONTROLLED, recovered_job
from tests.faults.recovery import SOURCE_SCENARIOS, recovered


@pytest.mark.parametrize("source", SOURCE_SCENARIOS)
def test_a_group_recovers(source: str):
    """Every existing member is bound, whatever happened to the others."""
    for seed in range(6):
        recovered(source, seed)


@pytest.mark.parametrize("source", CONTROLLED)
def test_a_group_of_jobs_recovers(source: str):
    """Every pod that the Job controller wants exists and is bound, whatever happened to others."""
    for seed in range(12):
        recovered_job(source, seed)


def test_a_finished_group_of_two_counts_for_the_other():
    """The members of one group of a tree are as many as the whole tree needs, and do not count as
    its new run.
    """
    recovered("Composite", 2650)


def test_a_job_that_becomes_smaller_needs_fewer_members():
    """Its waiting pod is deleted first, and the number of its group's members follows."""
    recovered_job("Job", 2642)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 4000, 100))
@pytest.mark.parametrize("source", SOURCE_SCENARIOS)
def test_groups_recover(source: str, first: int):
    """The invariant holds in three thousand lifecycles of each source."""
    for seed in range(first, first + 100):
        recovered(source, seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 4000, 100))
@pytest.mark.parametrize("source", CONTROLLED)
def test_groups_of_jobs_recover(source: str, first: int):
    """The invariant holds in three thousand lifecycles of each source."""
    for seed in range(first, first + 100):
        recovered_job(source, seed)
