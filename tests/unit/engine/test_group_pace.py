"""Gated members: those of large groups are checked at a limited rate, however often their group
changes.
"""

from scheduler.groups.cycle.pace import EACH_S, FEW, GatePace


def test_small_groups_are_asked_at_once():
    """Small groups are planned at each change."""
    pace = GatePace(lambda _key: FEW)
    assert [["a"]] * 3 == [pace.due(["a"], 1.0) for _ in range(3)]
    assert pace.next_deadline() is None


def test_a_large_group_rests_after_it_was_asked():
    """Changes meanwhile are not lost: the group is checked once more after the pause, and not
    without a change.
    """
    pace = GatePace(lambda _key: 1000)
    assert ["a"] == pace.due(["a"], 1.0)
    assert pace.next_deadline() is None
    assert [] == pace.due(["a"], 1.5)
    assert [] == pace.due(["a"], 1.9)
    until = 1.0 + 1000 * EACH_S
    assert until == pace.next_deadline()
    assert ["a"] == pace.due([], until)
    assert [] == pace.due([], until + 0.5)
    assert pace.next_deadline() is None
    assert [] == pace.due([], until + 1.0)
    assert not pace.resting


def test_others_do_not_wait_for_it():
    """Each group rests for itself."""
    pace = GatePace({"large": 5000, "small": 2}.__getitem__)
    assert ["large", "small"] == pace.due(["large", "small"], 1.0)
    assert ["small"] == pace.due(["large", "small"], 1.1)
