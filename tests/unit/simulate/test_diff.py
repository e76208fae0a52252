"""Two configurations are compared by their result for each pod."""

from scheduler.explain.report import diff_line, diff_table
from scheduler.simulate.diff import diff
from scheduler.testing import node
from tests.unit.simulate.asking import HEAD, place, pod, setup

CLUSTER = (
    node("a"),
    node("b"),
    pod("old", node_name="b", requests={"cpu": "1"}),
    pod("p", requests={"cpu": "1"}),
    pod("q", requests={"cpu": "9"}),
)
PACK = (
    f"{HEAD}profiles:\n- plugins: {{score: {{disabled: [{{name: "
    f"NodeResourcesBalancedAllocation}}]}}}}\n"
    "  pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrategy: "
    "{type: MostAllocated, resources: [{name: cpu, weight: 1}]}}\n"
)


def test_differences_are_listed_and_the_rest_counted():
    """A pod on another node is a difference; a pod that fits nowhere on either side is none."""
    found = diff(place(*CLUSTER), place(*CLUSTER, using=setup(config=PACK)))
    (one,) = found.pods

    assert one.before is not None
    assert one.after is not None
    assert ("default/p", "a", "b") == (one.key, one.before.node, one.after.node)
    assert (1, False) == (found.same, found.is_same)
    assert [["default", "p", "a", "b"]] == diff_table(found).rows
    assert "1 pods differ, 1 do not; scheduled: 1 before, 1 after" == diff_line(found)


def test_equal_configurations_agree():
    """Another name of the profile alone is no difference.

    A pod that is no longer selected is one.
    """
    same = diff(place(*CLUSTER), place(*CLUSTER))
    other = setup(config=f"{HEAD}profiles: [{{schedulerName: other}}]\n")
    gone = diff(place(*CLUSTER), place(*CLUSTER, using=other))

    assert same.is_same
    assert ["default/p", "default/q"] == [one.key for one in gone.pods]
    assert {None} == {one.after for one in gone.pods}
    assert "not ours" == diff_table(gone).rows[0][3]
