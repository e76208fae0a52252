"""The view that plugins get: selectors over columns, and views of views."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework.status import (
    SUCCESS,
    Code,
    Rejected,
    Status,
    reject,
)
from scheduler.objects.pod import NodeSelectorRequirement, NodeSelectorTerm
from scheduler.objects.selectors import value_matches
from scheduler.state.podindex import place
from tests.property.making import make_pod
from tests.unit.framework.runnerrig import RunnerRig


def term(
    expressions: tuple[tuple[str, str, tuple[str, ...]], ...] = (),
    fields: tuple[tuple[str, str, tuple[str, ...]], ...] = (),
) -> NodeSelectorTerm:
    """Return a node selector term."""
    return NodeSelectorTerm(
        tuple(NodeSelectorRequirement(*e) for e in expressions),
        tuple(NodeSelectorRequirement(*f) for f in fields),
    )


requirements = st.tuples(
    st.sampled_from(["number", "absent"]),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    st.lists(st.sampled_from(["0", "1", "2", "x"]), max_size=2).map(tuple),
)


@given(st.lists(requirements, min_size=1, max_size=3).map(tuple))
def test_terms_follow_the_single_label_rules(expressions):
    """All expressions of a term are ANDed, each node evaluated by its own labels."""
    rig = RunnerRig(nodes=4)
    expected = [
        all(
            value_matches(operator, values, str(row) if key == "number" else None)
            for key, operator, values in expressions
        )
        for row in range(4)
    ]

    assert expected == rig.nodes.term_mask(term(expressions)).tolist()


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ((("metadata.name", "In", ("n0", "ghost")),), ["n0"]),
        ((("metadata.name", "NotIn", ("n0",)),), ["n1", "n2"]),
        ((("metadata.name", "Exists", ()),), []),
        ((("metadata.uid", "In", ("n0",)),), []),
        ((("metadata.name", "In", ("n0",)), ("metadata.name", "In", ("n1",))), []),
    ],
)
def test_fields(fields, names: list[str]):
    """metadata.name with In and NotIn is the only field."""
    rig = RunnerRig()

    assert rig.rows(*names) == rig.nodes.term_mask(term(fields=fields)).tolist()


def test_an_empty_term_matches_nothing():
    """Empty labels match every node."""
    rig = RunnerRig()

    assert not rig.nodes.term_mask(term()).any()
    assert rig.nodes.labels_mask({}).all()
    assert rig.rows("n1") == rig.nodes.labels_mask({"number": "1"}).tolist()


def test_rows_without_a_node_are_never_feasible():
    """A deleted node leaves its row, and the next one uses it."""
    rig = RunnerRig()
    rig.cluster.drop_node("n1")
    nodes = rig.nodes
    assert 2 == nodes.count
    assert 3 == nodes.size
    assert [True, False, True] == nodes.exists.tolist()
    assert ("", None, None) == (nodes.name(1), nodes.node(1), nodes.row("n1"))


def test_a_view_of_a_few_rows():
    """Names, rows and columns are those of these rows alone, in their order."""
    rig = RunnerRig(nodes=4)
    few = rig.nodes.only(np.array([3, 1]))

    assert ["n3", "n1"] == [few.name(0), few.name(1)]
    assert (0, None) == (few.row("n3"), few.row("n0"))
    assert [3, 1] == few.label_int("number").tolist()
    assert ["n1"] == [few.only(np.array([1])).name(0)]
    assert [True, False] == few.rows_named(["n3", "n0"]).tolist()
    values = few.label_values("number")
    assert ["3", "1"] == [values[i] for i in few.label_ids("number")]


def test_another_mask():
    """`among` changes only which rows are feasible."""
    rig = RunnerRig()
    some = rig.nodes.among(rig.nodes.rows_named(["n2"]))

    assert [False, False, True] == some.feasible.tolist()
    assert some.exists.all()


class TestRejected:
    """The union of filters' rejections."""

    def mask(self, *flags: int) -> np.ndarray:
        """Return a mask of 0/1 flags."""
        return np.array(flags, dtype=np.bool_)

    def test_a_union_keeps_both_reasons(self):
        """A union of rejections is final if one of them is final."""
        both = reject(self.mask(1, 1, 0), "a") | reject(self.mask(0, 1, 1), "b", final=True)

        assert [("a",), ("a", "b"), ("b",)] == [both.texts(row) for row in range(3)]
        assert [False, True, True] == both.final.tolist()
        assert [("a", 1), ("b", 2)] == list(both.histogram(self.mask(0, 1, 1)))

    def test_a_union_with_nothing(self):
        """Either side of the union may be empty."""
        one = reject(self.mask(1), "a")

        assert one is one | None
        assert one is None | one
        assert one is one.otherwise(None)

    def test_otherwise_speaks_of_the_rest_only(self):
        """Rows that are rejected already keep their first reason."""
        both = reject(self.mask(1, 0), "a").otherwise(reject(self.mask(1, 1), "b", final=True))

        assert [("a",), ("b",)] == [both.texts(0), both.texts(1)]
        assert [False, True] == both.final.tolist()

    def test_statuses_of_rows(self):
        """A row is unschedulable, final, or a success."""
        rejected = reject(self.mask(1, 1, 0), "a").with_final(self.mask(0, 1, 1))

        assert isinstance(rejected, Rejected)
        assert Status(Code.UNSCHEDULABLE, ("a",), "P") == rejected.status(0, "P")
        assert Status(Code.UNRESOLVABLE, ("a",)) == rejected.status(1)
        assert SUCCESS == rejected.status(2)


def test_columns_of_a_view_of_some_nodes_with_other_pods_are_those_of_the_nodes():
    """Offers and requests of a hypothetical view, asked for once or again, follow its rows."""
    rig = RunnerRig()
    pods = [place(make_pod(f"p{at}"), rig.cycle.shape, f"n{at}") for at in range(3)]
    names = ("cpu", "memory")
    for rows in ((), (1,), (0, 2)):
        view = rig.nodes.hypothetical(added=[(pods[row], row) for row in rows])
        for _ in range(2):
            assert rig.nodes.offers(names).tolist() == view.offers(names).tolist()
            assert rig.nodes.offers(names[:1]).tolist() == view.offers(names[:1]).tolist()
        added = [1000 if row in rows else 0 for row in range(3)]
        assert added == (view.requests(("cpu",)) - rig.nodes.requests(("cpu",)))[0].tolist()


def test_a_mask_that_is_kept_cannot_be_changed():
    """The mask is read-only, because all selectors with the same expression share it."""
    rig = RunnerRig()
    mask = rig.cluster.table.labels.mask(NodeSelectorRequirement("number", "In", ("1",)))
    with pytest.raises(ValueError, match="read-only"):
        mask[0] = True
