"""Members finish, fail and get lost in any order: the rest of a group recovers when there is
capacity.
"""

import pytest

from tests.faults.jobrecovery import CONTROLLED, recovered_job
from tests.faults.recovery import STORIES, recovered


@pytest.mark.parametrize("source", STORIES)
def test_a_group_recovers(source: str):
    """Every member that exists is bound, whatever has happened to the others."""
    for seed in range(6):
        recovered(source, seed)


@pytest.mark.parametrize("source", CONTROLLED)
def test_a_group_of_jobs_recovers(source: str):
    """Every pod that the Job controller wants exists and is bound, whatever happened to others."""
    for seed in range(12):
        recovered_job(source, seed)


def test_a_finished_group_of_two_counts_for_the_other():
    """Members of one group of a tree are as many as the whole tree needs, and no new run of it."""
    recovered("Composite", 2650)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 4000, 100))
@pytest.mark.parametrize("source", STORIES)
def test_groups_recover(source: str, first: int):
    """The same in three thousand lives of each source."""
    for seed in range(first, first + 100):
        recovered(source, seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 4000, 100))
@pytest.mark.parametrize("source", CONTROLLED)
def test_groups_of_jobs_recover(source: str, first: int):
    """The same in three thousand lives of each source."""
    for seed in range(first, first + 100):
        recovered_job(source, seed)
