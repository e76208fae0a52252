"""How long a pod waits."""

import pytest

from scheduler.engine.queue.backoff import Backoff


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0), (-1, 0), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (999, 10)]
)
def test_it_doubles_up_to_a_limit(failures: int, seconds: float):
    """From one second to ten."""
    assert seconds == Backoff().duration_s(failures)


def test_the_end_is_cut_to_whole_seconds():
    """Pods of one second come back together."""
    assert 101.0 == Backoff().ends(100.0, 1) == Backoff().ends(100.999, 1)
    assert 100.0 == Backoff(0.5, 10).ends(100.4, 1)


def test_a_limit_below_the_start():
    """The limit wins."""
    assert 3 == Backoff(5, 3).duration_s(1)
