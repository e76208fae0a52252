"""Time as an argument, and times as Kubernetes writes them."""

import pytest

from scheduler.base.clock import ManualClock, RealClock, parse_rfc3339, rfc3339, rfc3339_micro


def test_the_real_clock_never_goes_back():
    """The clock's time never decreases, and is close to the present time."""
    clock = RealClock()
    first, second = clock.now(), clock.now()

    assert 1_700_000_000 < first <= second


def test_the_manual_clock_stands_still():
    """The manual clock moves on request only, and forward only."""
    clock = ManualClock(5.0)
    clock.advance(2.5)
    assert 7.5 == clock.now()

    with pytest.raises(ValueError, match="cannot go back"):
        clock.set(7.0)


def test_times_as_kubernetes_writes_them():
    """`Time` has whole seconds, `MicroTime` six decimals, and both are in UTC."""
    assert "2026-01-01T00:00:00Z" == rfc3339(1_767_225_600.9)
    assert "2026-01-01T00:00:00.250000Z" == rfc3339_micro(1_767_225_600.25)
    assert 1_767_225_600.25 == parse_rfc3339("2026-01-01T00:00:00.250000Z")


@pytest.mark.parametrize("text", [None, "", "yesterday"])
def test_what_is_no_time_is_none(text: str | None):
    """Absent and invalid times are treated the same."""
    assert parse_rfc3339(text) is None
