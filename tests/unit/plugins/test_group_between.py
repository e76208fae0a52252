"""Rules that bind members to one another, as sets of leaves."""

import numpy as np

from scheduler.groups.planning import between


def test_nodes_without_the_shared_resource_are_in_no_set():
    """A resource is accessible in two domains; -1 marks a node in neither."""
    (rule,) = between.within(np.array([7, -1, 3, 7, -1]), (0, 1, 2, 3))

    assert ((0, 3), (2,)) == rule.sets
    assert rule.single
    assert rule.only
