"""The back-off time of a pod."""

import pytest

from scheduler.engine.queue.backoff import PodBackoff


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0), (-1, 0), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (999, 10)]
)
def test_it_doubles_up_to_a_limit(failures: int, seconds: float):
    """The back-off doubles from one second to ten."""
    assert seconds == PodBackoff().duration_s(failures)


def test_the_end_is_cut_to_whole_seconds():
    """Pods of one second return together."""
    assert 101.0 == PodBackoff().ends(100.0, 1) == PodBackoff().ends(100.999, 1)
    assert 100.0 == PodBackoff(0.5, 10).ends(100.4, 1)


def test_a_limit_below_the_start():
    """If the limit is below the initial back-off, the limit is used."""
    assert 3 == PodBackoff(5, 3).duration_s(1)
