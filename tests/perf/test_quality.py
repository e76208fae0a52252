"""A small comparison of placements works, in every shape."""

from tests.perf.quality import BASIS, PEERS, measure


def test_applications_are_nearer_than_by_any_other_rule():
    """On every shape the network cost is at most 0.8 of the defaults' cost, and never above the
    peer's.
    """
    for shape, row in measure(applications=2).items():
        ours = row["ours, without a file"]

        assert ours["placed"] == row[BASIS]["placed"] == row[PEERS]["placed"], shape
        assert ours["cost"] <= 0.8 * row[BASIS]["cost"], shape
        assert ours["cost"] <= row[PEERS]["cost"], shape
