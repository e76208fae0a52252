"""Images and taints of nodes: the incremental state equals one scan."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.objects.node import ContainerImage, Taint
from scheduler.state.counts.touched import KEPT, Touched
from scheduler.state.images import ImageIndex
from scheduler.state.taints import TaintIndex

_images = st.lists(st.sampled_from("abc"), max_size=3).map(
    lambda names: tuple(ContainerImage((name,), 10) for name in names)
)
_taints = st.lists(st.sampled_from("abc").map(lambda key: Taint(key=key)), max_size=2).map(tuple)


@given(writes=st.lists(st.tuples(st.integers(0, 4), _images, st.booleans())))
def test_images_are_found_on_the_rows_that_hold_them(writes):
    """The results agree after any writes, with early or late queries."""
    index = ImageIndex()
    rows: dict[int, frozenset[str]] = {}
    for row, images, asked in writes:
        index.set(row, images)
        rows[row] = frozenset(name for image in images for name in image.names)
        for name in "abc" if asked else "":
            holders = {r for r, names in rows.items() if name in names}
            present = index.present(name, 5)
            assert index.holds(name) == bool(holders)
            assert holders == (set() if present is None else set(present.nonzero()[0].tolist()))
            assert int(10 * (len(holders) / 5)) == index.spread_bytes(name, 5)


@given(writes=st.lists(st.tuples(st.integers(0, 4), _taints)))
def test_taints_are_looked_up_per_distinct_set(writes):
    """The columns follow every write, though a write of the same taints keeps them."""
    index = TaintIndex()
    rows: list[tuple[Taint, ...]] = []
    for row, taints in writes:
        while len(rows) <= row:
            index.set(len(rows), ())
            rows.append(())
        rows[row] = taints
        generation = index.generation
        index.set(row, taints)
        index.set(row, taints)
        assert index.generation <= generation + 1
        counts = tuple(len(one) for one in index.sets)
        assert [len(one) for one in rows] == index.numbers(counts).tolist()
        flags = tuple(Taint(key="a") in one for one in index.sets)
        assert [Taint(key="a") in one for one in rows] == index.flags(flags).tolist()


def test_the_log_of_rows_knows_its_limits():
    """Rows are returned once each; dropped entries are unknown."""
    log = Touched()
    start = log.mark
    for row in (3, 1, 3):
        log.add(row)

    assert [3, 1] == log.since(start)
    assert [] == log.since(log.mark)
    middle = log.mark
    for _ in range(2 * KEPT):
        log.add(7)
    assert log.since(start) is None
    assert [7] == log.since(middle + KEPT)
