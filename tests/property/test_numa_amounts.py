"""Amounts of zones: the quick comparison and the sums of sets are exact, whatever the digits."""

from itertools import combinations
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.plugins.numa.amounts import level_of, levels_of
from scheduler.plugins.numa.demand import LIMIT, Needs, is_affine, may_be_host_level
from scheduler.plugins.numa.filtering import fit
from scheduler.plugins.numa.leastnuma import ZoneInventory, serve
from scheduler.plugins.numa.zonecolumns import ZoneColumns
from scheduler.plugins.numa.zones import UNLISTED, KubeletSettings, Layout, Zones
from scheduler.plugins.numa.zoneview import ZoneView

NEAR = [0, 2**24, 2**30 * 1000, 2**53, LIMIT]
# Round numbers, their neighbours, and any others.
AMOUNTS = st.one_of(
    st.integers(0, LIMIT - 1),
    st.builds(
        lambda near, more: max(0, min(near + more, LIMIT - 1)),
        st.sampled_from(NEAR),
        st.integers(-70, 70),
    ),
    st.builds(lambda cpus: cpus * 1000, st.integers(0, 128)),
)


@settings(max_examples=25, deadline=None)
@given(amounts=st.lists(AMOUNTS, min_size=1, max_size=20), asked=AMOUNTS)
def test_the_quick_comparison_is_exact(amounts, asked):
    """Every amount is on the side of every other on which it is in whole numbers."""
    columns = ZoneColumns()
    layout = Layout(tuple(range(len(amounts))), (), ())
    zones = Zones(layout, {"cpu": amounts}, {"cpu": amounts})
    columns.put(1, zones, KubeletSettings())
    view = seen(columns, 2)
    near = [max(0, one + more) for one in amounts for more in (-1, 1)]
    for limit in (asked, *amounts, *near):
        got = view.at_least("cpu", limit)
        assert got is not None

        assert got[1, : len(amounts)].tolist() == [one >= limit for one in amounts]
        assert not got[0].any()
        assert not got[1, len(amounts) :].any()


@settings(max_examples=25, deadline=None)
@given(amounts=st.lists(AMOUNTS, min_size=2, max_size=20))
def test_levels_are_in_the_order_of_amounts(amounts):
    """One by one or all at once: a larger amount has no lower level, and a level's least amount is
    above all lower levels.
    """
    amounts = sorted((UNLISTED, *amounts))
    levels = [level_of(one)[0] for one in amounts]

    assert levels == levels_of(np.array(amounts)).tolist() == sorted(levels)
    for one, level in zip(amounts, levels, strict=True):
        assert not level_of(one)[1] or one <= 0 or level_of(one - 1)[0] < level


def test_sizes_that_people_write_are_the_least_of_their_levels():
    """Sizes that people write (multiples of half a CPU or half a GiB) are compared by their levels
    alone.
    """
    gib = 2**30 * 1000
    assert all(level_of(cpus * 500)[1] for cpus in range(1, 1024))
    assert all(level_of(number * gib // 2)[1] for number in range(1, 1000))
    assert not level_of(gib + 1)[1]


@settings(max_examples=20, deadline=None)
@given(
    rows=st.lists(st.tuples(*[st.one_of(st.just(UNLISTED), AMOUNTS)] * 4), min_size=1, max_size=6),
    asked=AMOUNTS.map(lambda one: one + 1),
)
def test_the_fewest_zones_are_found_exactly(rows, asked):
    """Rounded sums never make a set of zones count as too small, or as large enough."""
    free = np.array(rows, dtype=np.int64)
    view: Any = SimpleNamespace(
        size=len(rows),
        slots=4,
        scratch=(None, None),
        free=lambda _: free,
        at_least=lambda _, amount, out: np.greater_equal(free, amount, out),
    )
    layout = Layout((0, 1, 2, 3), (0, 1, 2, 3), ((10,) * 4,) * 4)
    served = serve(ZoneInventory(view, layout, np.arange(len(rows))), (("memory", asked),))

    assert served.count.tolist() == [_fewest(row, asked) for row in rows]


NAMES = [
    "cpu",
    "memory",
    "hugepages-2Mi",
    "example.com/nic",
    "ephemeral-storage",
    "example.com/new",
]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_one_row_is_judged_as_all_are(seed):
    """Rejections in plain numbers equal those in columns.

    Often an amount is just enough.
    """
    source = Random(seed)
    columns = ZoneColumns()
    layout = Layout((0, 1, 2), (0, 1, 2), ((10,) * 3,) * 3)
    for row in range(40):
        names = [name for name in NAMES[:5] if source.random() < 0.7]
        amounts = {name: [source.randint(UNLISTED, 2), source.randint(0, 2), 0] for name in names}
        columns.put(row, Zones(layout, amounts, amounts), KubeletSettings())
    offered = np.array([source.random() < 0.9 for _ in range(40)])
    topologies: Any = SimpleNamespace(offers=lambda name, _: offered if "/" in name else None)
    view = seen(columns, 40, topologies)
    needs = tuple((name, source.randint(0, 2)) for name in source.sample(NAMES, 3))
    for is_guaranteed in (True, False):
        everywhere = fit(view, needs, is_guaranteed=is_guaranteed).infeasible(40).tolist()
        alone = [_misfits_row(view, needs, row, is_guaranteed=is_guaranteed) for row in range(40)]

        assert alone == everywhere


def seen(columns: ZoneColumns, size: int, topologies: Any = None) -> ZoneView:
    """Return a column as it is in the view of all nodes."""
    nodes: Any = SimpleNamespace(size=size, is_live=True)
    return ZoneView(columns, topologies, nodes)


def _misfits_row(view: ZoneView, needs: Needs, row: int, *, is_guaranteed: bool) -> bool:
    """Return whether no zone fits on one row of the table: `fit` in plain numbers."""
    zones: list[int] | None = None
    for name, amount in needs:
        if amount <= 0:
            continue
        offers = view.offers(name)
        if offers is not None and not offers[row]:
            return True
        free = view.free(name)
        amounts = [] if free is None else free[row].tolist()
        if may_be_host_level(name) and all(most < 0 for most in amounts):
            continue
        least = 0 if is_affine(name) and not is_guaranteed else amount
        among = range(len(amounts)) if zones is None else zones
        zones = [slot for slot in among if amounts[slot] >= least]
        if not zones:
            return True
    return False


def _fewest(row, asked):
    """Return the smallest number of zones that have an amount, 0 for none, -1 if none is listed."""
    listed = [one for one in row if one >= 0]
    if not listed:
        return UNLISTED
    for number in range(1, len(listed) + 1):
        if any(sum(some) >= asked for some in combinations(listed, number)):
            return number
    return 0
