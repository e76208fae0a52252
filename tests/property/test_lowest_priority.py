"""A cluster without pods of lower priority: the shortcut agrees with the search over all pods."""

from collections import Counter
from typing import Any

import pytest

from scheduler.groups.planning import eviction
from tests.property.test_what_is_remembered import random_rig


@pytest.mark.parametrize("first", range(0, 18, 6))
def test_a_group_has_candidates_only_below_its_priority(first: int):
    """If priorities forbid every eviction, the search finds no candidate."""
    seen: Counter[bool] = Counter()
    for seed in range(first, first + 6):
        rig = random_rig(seed)
        plugin: Any = rig.engine.profiles["trellis"].plugins["ClusterTopologyPlacementGroup"]
        evictor, pods = plugin._planner.evictor, plugin.handle.pods
        known = {one.pod.priority for one in pods} | {0}
        for priority in sorted(known | {one + 1 for one in known}):
            found = eviction.lower(pods, priority, evictor._described, own="")
            has_lower = evictor.any_below(priority)
            assert has_lower or not found, (seed, priority)
            seen[has_lower] += 1
    assert min(seen[True], seen[False]) > 0, seen
