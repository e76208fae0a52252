"""Attempts in order, the times between them, and a cluster with the later ones undone."""

from scheduler.explain.attempts import (
    AttemptRecord,
    LeaderChange,
    assumed,
    history,
    moments,
    undone,
)
from scheduler.objects.plain import read_node, read_pod
from scheduler.snapshot.snapshot import Snapshot
from scheduler.testing import node, pod


def attempt(name: str, at: float, node: str = "", message: str = "") -> AttemptRecord:
    """Return an attempt at a pod of `default`."""
    return AttemptRecord(
        "default", name, f"uid-{name}", "trellis", at, at, 1, 1, node, message, None, (), 1, 2, {}
    )


def placed(name: str, node: str = "", created: str = "2026-01-01T00:00:00Z"):
    """Return a pod with the uid in `attempt`."""
    raw = pod(name, node_name=node)
    raw["metadata"] |= {"uid": f"uid-{name}", "creationTimestamp": created}
    return read_pod(raw)


def test_a_history_is_of_one_pod_in_order():
    """The history has the start of the record, so that an empty history is meaningful."""
    kept = [attempt("a", 10.0, message="no"), attempt("b", 11.0, "n"), attempt("a", 12.5, "n")]
    found = history(kept, "default", "a")

    assert [(None, "no"), ("n", "")] == [(one.node, one.message) for one in found.attempts]
    assert "1970-01-01T00:00:10Z" == found.kept_since
    assert () == history(kept, "other", "a").attempts
    assert history([], "default", "a").kept_since is None


def test_moments_come_by_time():
    """Whatever order they are kept in."""
    reported = moments([attempt("b", 11.0), attempt("a", 10.0, "n")])["moments"]

    assert [("default/a", "n", 10.0), ("default/b", None, 11.0)] == [
        (one["pod"], one["node"], one["at"]) for one in reported
    ]


def test_moments_come_with_the_changes_of_the_leader():
    """The page marks them on the axis of time."""
    found = moments([attempt("a", 10.0)], [LeaderChange(9.0, is_leading=True)])
    assert [{"at": 9.0, "isLeading": True}] == found["leading"]
    assert [] == moments([])["leading"]


def test_later_placements_are_undone():
    """At each time exactly the placements made by then exist.

    Later pods do not exist yet.
    """
    start = 1_767_225_600.0  # 2026-01-01T00:00:00Z
    late = placed("c", "n", "2026-01-01T00:01:00Z")
    snapshot = Snapshot(
        nodes=(read_node(node("n")),),
        bound=(placed("old", "n"), placed("a", "n"), placed("b", "n"), late),
        unbound=(placed("w", created="2026-01-01T00:02:00Z"),),
    )
    kept = [
        attempt("a", start + 10, "n"),
        attempt("b", start + 20, "n"),
        attempt("c", start + 70, "n"),
    ]

    def there(at: float) -> tuple[list[str], list[str]]:
        then = undone(snapshot, kept, start + at)
        assert start + at == then.taken_at
        assert all(not one.spec.node_name for one in then.unbound)
        return (
            [one.metadata.name for one in then.bound],
            [one.metadata.name for one in then.unbound],
        )

    assert (["old"], ["a", "b"]) == there(5)
    assert (["old", "a"], ["b"]) == there(10)
    assert (["old", "a", "b"], []) == there(30)
    assert (["old", "a", "b"], ["c"]) == there(65)
    assert (["old", "a", "b", "c"], ["w"]) == there(300)


def test_what_was_decided_is_on_its_node():
    """A decided pod is on its node before the API server confirms it; a pod that was retried since
    is not.
    """
    start = 1_767_225_600.0
    snapshot = Snapshot(
        bound=(placed("old", "n"),), unbound=(placed("a"), placed("b"), placed("c"))
    )
    kept = [
        attempt("a", start + 1, "n"),
        attempt("b", start + 1, "n"),
        attempt("b", start + 2, message="conflict"),
        attempt("c", start + 9, "n"),
    ]
    then = assumed(snapshot, kept, start + 3)

    assert [("old", "n"), ("a", "n")] == [
        (one.metadata.name, one.spec.node_name) for one in then.bound
    ]
    assert ["b", "c"] == [one.metadata.name for one in then.unbound]


def test_the_first_attempt_decides_the_order_within_a_second():
    """Creation times are cut to seconds."""
    start = 1_767_225_600.0
    snapshot = Snapshot(unbound=(placed("w"),))
    first = attempt("w", start + 0.9, message="no")

    assert () == undone(snapshot, [first], start + 0.5).unbound
    assert 1 == len(undone(snapshot, [first], start + 0.95).unbound)
