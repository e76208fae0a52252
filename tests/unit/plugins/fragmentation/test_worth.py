"""The tables behind FragmentationAware: prices of holes, expected use, scarcity, distance of
mixes.
"""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.plugins.fragmentation.holes import hole_values
from scheduler.plugins.fragmentation.mix import Mix, MixShape, mix_of
from scheduler.plugins.fragmentation.usage import expected_use, interpolated
from scheduler.plugins.fragmentation.worth import Beside, NodeClass, Worth

SIZES = st.dictionaries(st.integers(1, 40), st.floats(0.01, 1.0), min_size=1, max_size=6)


def test_halves_are_worth_half_a_device():
    """Two items of 0.5 fill a device: a hole has the worth of the items that fit."""
    values = hole_values([20], [1.0], cells=40)

    assert [0.0, 0.0, 0.5, 0.5, 1.0] == values[[0, 19, 20, 39, 40]].tolist()


def test_no_shared_pods_leave_whole_devices_alone_of_worth():
    """Without sizes only an untouched device has a worth."""
    assert [0.0, 0.0, 1.0] == hole_values([], [], cells=2).tolist()


@given(SIZES)
@settings(max_examples=60, deadline=None)
def test_prices_are_feasible_and_tight(demand):
    """The worth never decreases, two holes are worth no more than their sum, a device is worth
    1.
    """
    values = hole_values(list(demand), list(demand.values()), cells=40)

    assert (np.diff(values) >= -1e-9).all()
    assert values[40] == pytest.approx(1.0)
    for left, right in product(range(41), repeat=2):
        if left + right <= 40:
            assert values[left] + values[right] <= values[left + right] + 1e-6


@given(SIZES)
@settings(max_examples=60, deadline=None)
def test_prices_reach_the_value_of_the_packing_program(demand):
    """Strong duality: the priced demand is at least its volume and at most one device per item."""
    values = hole_values(list(demand), list(demand.values()), cells=40)
    priced = sum(values[size] * share for size, share in demand.items())
    volume = sum(size / 40 * share for size, share in demand.items())
    alone = sum(share / (40 // size) for size, share in demand.items())

    assert volume - 1e-6 <= priced <= alone + 1e-6


def test_the_order_of_shapes_changes_nothing():
    """Equal mixes have equal tables."""
    first = hole_values([5, 9, 12], [0.2, 0.3, 0.5], cells=40)
    second = hole_values([12, 5, 9], [0.5, 0.2, 0.3], cells=40)

    assert first.tolist() == second.tolist()


def test_expected_use_of_one_try_is_the_share_that_fits():
    """For one random pod the use is the sum of the worths of the shapes that fit, by their
    shares.
    """
    table = expected_use([(1, 2, 0.5), (3, 1, 0.25)], 3, 2, 0.5, tries=1)

    assert 0.0 == table[0, 2]
    assert pytest.approx(0.5) == table[1, 2]
    assert pytest.approx(0.5 + 0.125) == table[3, 2]
    assert pytest.approx(0.125) == table[3, 1]


def test_expected_use_equals_the_average_over_all_sequences():
    """With three tries of two shapes, the use is the mean over the eight sequences."""
    shapes = [(1, 1), (2, 1)]

    def used_by(sequence):
        beside, worth, used = 3, 2, 0
        for need, gain in sequence:
            if need <= beside and gain <= worth:
                beside, worth, used = beside - need, worth - gain, used + gain
        return used

    mean = sum(map(used_by, product(shapes, repeat=3))) / 8
    table = expected_use([(1, 1, 0.5), (2, 1, 0.5)], 3, 2, 1.0, tries=3)

    assert pytest.approx(mean) == table[3, 2]


def test_interpolation_agrees_with_the_table_and_stops_at_its_edge():
    """Whole cells are the table's; between them the mean; beyond the edge the edge."""
    table = np.array([[0.0, 1.0], [2.0, 3.0]])
    number = np.zeros(4, dtype=np.int64)
    found = interpolated(
        table[None], number, np.array([0.0, 1.0, 0.5, 9.0]), np.array([1.0, 0.0, 0.5, 9.0])
    )

    assert [1.0, 2.0, 1.5, 3.0] == found.tolist()


def test_a_class_that_only_some_pods_need_is_dearer():
    """Pods that name a model raise the price of this model alone."""
    mix = mix_of({MixShape((1,), 1, 1000): 8, MixShape((1,), 1, 1000, ("new",)): 2})
    supply = ((NodeClass("new", 4, (64,)), 2), (NodeClass("old", 4, (64,)), 8))
    worth = Worth(mix, supply, [Beside("cpu", 1.0, 64.0)], bonus=0.0)

    assert 1.0 == worth.scarcity[1]
    assert worth.scarcity[0] > 1.5


def test_devices_without_anything_beside_them_are_worth_nothing():
    """Free devices on a node without CPU cannot be used."""
    mix = mix_of({MixShape((4,), 1, 1000): 1})
    worth = Worth(mix, ((NodeClass("m", 2, (8,)), 1),), [Beside("cpu", 1.0, 8.0)], bonus=0.0)
    classes, free = np.zeros(3, dtype=int), np.full((3, 2), 1000)
    found = worth.of(classes, [np.array([0.0, 4.0, 8.0])], free, np.zeros(3, dtype=int))

    assert [0.0, 1.0, 2.0] == pytest.approx(found.tolist())


def test_the_distance_of_mixes():
    """0 for equal mixes, 1 for mixes without a common shape, symmetric."""
    one, two = MixShape((1,), 1, 500), MixShape((1,), 1, 250)
    first, second = mix_of({one: 3, two: 1}), mix_of({one: 1, two: 1})

    assert 0.0 == first.distance(first)
    assert pytest.approx(0.25) == first.distance(second) == second.distance(first)
    assert 1.0 == mix_of({one: 1}).distance(mix_of({two: 1})) == Mix().distance(first)


def test_only_the_most_frequent_shapes_are_kept():
    """A bounded mix keeps the most frequent shapes, and its shares add up to 1."""
    shapes = {MixShape((number,), 1, 1000): number for number in range(1, 9)}
    kept = mix_of(shapes, most=3)

    assert [6, 7, 8] == [shape.beside[0] for shape, _ in kept.shapes]
    assert pytest.approx(1.0) == sum(share for _, share in kept.shapes)
