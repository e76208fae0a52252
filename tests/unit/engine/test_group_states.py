"""States of groups and members: every transition of the table is tested, and all others are
refused.
"""

from itertools import product

import pytest

from scheduler.framework.groups import GroupStage
from scheduler.groups.cycle import states
from scheduler.groups.cycle.states import (
    AT_REST,
    GROUP_MOVES,
    IN_ATTEMPT,
    MEMBER_MOVES,
    Cause,
    GroupState,
    GroupStates,
    IllegalMoveError,
    MemberCause,
    MemberState,
    Observed,
)

CAUSES = (*(stage for stage in GroupStage if stage is not GroupStage.CHANGED), *Observed)


def paths():
    """Return for each state the causes that lead to it from pending, the fewest first."""
    found: dict[GroupState, tuple[Cause, ...]] = {GroupState.PENDING: ()}
    queue = [GroupState.PENDING]
    for state in queue:
        for move in GROUP_MOVES:
            if state in move.before and move.after is not None and move.after not in found:
                found[move.after] = (*found[state], move.cause)
                queue.append(move.after)
    return found


def test_every_transition_of_a_group_is_walked_and_every_other_one_refused():
    """In each state, each cause leads to the state of its only row in the table, or is rejected
    without effect.
    """
    known = {(before, move.cause): move for move in GROUP_MOVES for before in move.before}
    reached = paths()
    assert set(GroupState) == set(reached)
    assert sum(len(move.before) for move in GROUP_MOVES) == len(known)  # no pair has two rows
    for (state, path), cause in product(reached.items(), CAUSES):
        groups = GroupStates()
        for one in path:
            groups.move("a", one)
        move = known.get((state, cause))
        if move is None:
            with pytest.raises(IllegalMoveError, match=state):
                groups.move("a", cause)
        else:
            groups.move("a", cause)
        assert (state if move is None else move.after or state) == groups.of("a")
        assert GroupState.PENDING == groups.of("b")


def test_every_transition_of_a_member_is_walked_and_every_other_one_refused():
    """A lost member has no transitions: its replacement is another pod."""
    known = {(before, move.cause): move.after for move in MEMBER_MOVES for before in move.before}
    for state, cause in product(MemberState, MemberCause):
        if (state, cause) in known:
            assert known[state, cause] == states.member_after(state, cause)
        else:
            with pytest.raises(IllegalMoveError, match=state):
                states.member_after(state, cause)
    assert not [cause for state, cause in known if state is MemberState.LOST]


def test_an_attempt_ends_only_where_the_group_is_at_rest():
    """From each state of an attempt a state at rest can be reached, and gates or observations do
    not leave it.
    """
    assert set(GroupState) == {*AT_REST, *IN_ATTEMPT}
    for move in GROUP_MOVES:
        if move.cause in (*Observed, GroupStage.ON_HOLD) and move.cause is not Observed.ABANDONED:
            assert all(before in AT_REST or move.after is None for before in move.before), move
    for state in IN_ATTEMPT:
        ends = [m.after for m in GROUP_MOVES if state in m.before and m.after in AT_REST]
        assert ends, state


def test_members_decide_the_state_at_rest():
    """The state depends on whether the minimum, some or no members are bound; a group without a
    description has no minimum.
    """
    counts = [(3, 3), (4, 3), (2, 3), (0, 3), (2, 0), (0, 0)]
    expected = ["Complete", "Complete", "Incomplete", "Empty", "Incomplete", "Empty"]
    assert expected == [states.observed(*one) for one in counts]
