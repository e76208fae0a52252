"""The store: versions, history, conflicts, deletion, without rules and without HTTP."""

import pytest

from scheduler.base.clock import ManualClock
from scheduler.sandbox.api.status import StatusError
from scheduler.sandbox.kinds.kinds import CONFIGMAPS, LEASES, NAMESPACES
from scheduler.sandbox.store.store import Deletion, ObjectStore


def make_store(history: int = 1000) -> ObjectStore:
    store = ObjectStore(ManualClock(1_000_000.0), seed=1, history=history)
    store.create(NAMESPACES, {"metadata": {"name": "default"}})
    return store


def nothing() -> None:
    """A watcher that ignores all changes."""


def put(store: ObjectStore, name: str, **data: str) -> int:
    return store.create(CONFIGMAPS, {"metadata": {"name": name}, "data": data}, "default").version


class TestWrites:
    def test_each_write_has_the_next_version(self):
        """All kinds share one counter."""
        store = make_store()
        first = put(store, "a")
        second = store.create(LEASES, {"metadata": {"name": "l"}}, "default").version

        assert first + 1 == second == store.version

    def test_what_was_handed_over_is_not_shared(self):
        """A caller may go on using its dict; the store has its own."""
        store = make_store()
        data = {"a": "1"}
        store.create(CONFIGMAPS, {"metadata": {"name": "c"}, "data": data}, "default")
        data["a"] = "2"

        assert {"a": "1"} == store.get(CONFIGMAPS, "default", "c").obj["data"]

    def test_a_version_never_changes(self):
        """An update makes a new dict and leaves the old one unchanged."""
        store = make_store()
        put(store, "c", a="1")
        old = store.get(CONFIGMAPS, "default", "c")
        store.change(CONFIGMAPS, "default", "c", lambda obj: {**obj, "data": {"a": "2"}})

        assert {"a": "1"} == old.obj["data"]
        assert old is not store.get(CONFIGMAPS, "default", "c")

    def test_dry_run_leaves_no_trace(self):
        """The store has no new object, version or event."""
        store = make_store()
        version = store.version
        watch = store.watch(CONFIGMAPS, wake=nothing)
        body = {"metadata": {"name": "c"}}
        store.create(CONFIGMAPS, body, "default", dry_run=True)

        assert store.find(CONFIGMAPS, "default", "c") is None
        assert version == store.version
        assert [] == watch.changes()

    def test_generated_names_do_not_collide(self):
        """Ten thousand of them are distinct in five characters."""
        store = make_store()
        body = {"metadata": {"generateName": "n-"}}
        names = {store.create(CONFIGMAPS, body, "default").name for _ in range(10_000)}

        assert 10_000 == len(names)

    def test_equal_seeds_make_equal_clusters(self):
        """uids and generated names come from the seed."""
        uids = [make_store().get(NAMESPACES, "", "default").uid for _ in range(2)]

        assert uids[0] == uids[1]


class TestReading:
    def test_lists_are_sorted_by_namespace_and_name(self):
        """The order is that of etcd's keys."""
        store = make_store()
        store.create(NAMESPACES, {"metadata": {"name": "other"}})
        for name in ("b", "a"):
            put(store, name)
        store.create(CONFIGMAPS, {"metadata": {"name": "z"}}, "other")

        assert ["a", "b", "z"] == [stored.name for stored in store.list(CONFIGMAPS)]
        assert ["z"] == [stored.name for stored in store.list(CONFIGMAPS, "other")]

    def test_a_namespace_is_no_prefix_of_another(self):
        """`default` does not list `default-2`."""
        store = make_store()
        store.create(NAMESPACES, {"metadata": {"name": "default-2"}})
        store.create(CONFIGMAPS, {"metadata": {"name": "x"}}, "default-2")

        assert [] == list(store.list(CONFIGMAPS, "default"))

    def test_the_past_can_be_listed(self):
        """Created, changed and deleted objects are as they were at a version."""
        store = make_store()
        put(store, "kept", a="1")
        put(store, "gone")
        version = store.version
        store.delete(CONFIGMAPS, "default", "gone")
        store.change(CONFIGMAPS, "default", "kept", lambda obj: {**obj, "data": {"a": "2"}})
        put(store, "new")
        then = store.list_at(CONFIGMAPS, "default", version)

        assert ["gone", "kept"] == [stored.name for stored in then]
        assert {"a": "1"} == then[1].obj["data"]

    def test_a_forgotten_past_is_gone(self):
        """410 instead of a wrong list."""
        store = make_store(history=4)
        version = put(store, "first")
        for number in range(20):
            put(store, f"n{number}")

        with pytest.raises(StatusError) as caught:
            store.list_at(CONFIGMAPS, "default", version)
        assert (410, "Expired") == (caught.value.code, caught.value.reason)


class TestWatching:
    def test_changes_come_in_order_with_what_was_before(self):
        """The events are ADDED, MODIFIED and DELETED, each with the former object."""
        store = make_store()
        watch = store.watch(CONFIGMAPS, wake=nothing)
        put(store, "c", a="1")
        store.change(CONFIGMAPS, "default", "c", lambda obj: {**obj, "data": {"a": "2"}})
        store.delete(CONFIGMAPS, "default", "c")
        changes = watch.changes()

        assert ["ADDED", "MODIFIED", "DELETED"] == [change.type for change in changes]
        assert changes[0].previous is None
        assert changes[1].previous is changes[0].stored
        assert [] == watch.changes()

    def test_a_wake_up_is_not_repeated_until_read(self):
        """A reader is woken once, however many events arrive."""
        store = make_store()
        reported: list[int] = []
        watch = store.watch(CONFIGMAPS, wake=lambda: reported.append(store.version))
        put(store, "a")
        put(store, "b")
        watch.changes()
        put(store, "c")

        assert 2 == len(reported)

    def test_a_closed_watch_is_silent(self):
        """No reader is woken after close, and close may be repeated."""
        store = make_store()
        reported: list[int] = []
        watch = store.watch(CONFIGMAPS, wake=lambda: reported.append(1))
        watch.close()
        watch.close()
        put(store, "a")

        assert [] == reported

    def test_a_watch_resumes_after_its_version(self):
        """No event is lost or sent twice."""
        store = make_store()
        first = put(store, "a")
        put(store, "b")
        watch = store.watch(CONFIGMAPS, since=first, wake=nothing)

        assert ["b"] == [change.stored.name for change in watch.changes()]

    def test_a_slow_reader_is_notified_of_lost_events(self):
        """A watch that falls behind the history ends with 410, it never skips silently."""
        store = make_store(history=4)
        watch = store.watch(CONFIGMAPS, wake=nothing)
        for number in range(20):
            put(store, f"n{number}")

        with pytest.raises(StatusError, match="too old resource version"):
            watch.changes()

    def test_a_watch_of_a_namespace_sees_only_that(self):
        """The prefix of the key selects the namespace."""
        store = make_store()
        store.create(NAMESPACES, {"metadata": {"name": "other"}})
        watch = store.watch(CONFIGMAPS, "other", wake=nothing)
        put(store, "here")
        store.create(CONFIGMAPS, {"metadata": {"name": "there"}}, "other")

        assert ["there"] == [change.stored.name for change in watch.changes()]


class TestDeletion:
    def test_owners_are_indexed(self):
        """Dependents are found by the owner's uid, and leave the index when they go."""
        store = make_store()
        put(store, "owner")
        uid = store.get(CONFIGMAPS, "default", "owner").uid
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        body = {"metadata": {"name": "child", "ownerReferences": [reference]}}
        store.create(CONFIGMAPS, body, "default")
        known = dict(store.dependents)
        store.delete(CONFIGMAPS, "default", "child")

        assert {("configmaps", "default/child")} == known[uid] | {("configmaps", "default/child")}
        assert uid not in store.dependents

    def test_preconditions_hold(self):
        """Another uid or version conflicts."""
        store = make_store()
        put(store, "c")
        for options in (Deletion(uid="other"), Deletion(resource_version="1")):
            with pytest.raises(StatusError) as caught:
                store.delete(CONFIGMAPS, "default", "c", options)
            assert 409 == caught.value.code

    def test_deletion_has_a_version_of_its_own(self):
        """A watcher that has received a deletion can resume after its version."""
        store = make_store()
        version = put(store, "c")
        gone = store.delete(CONFIGMAPS, "default", "c")

        assert gone.version == version + 1
        assert str(gone.version) == gone.obj["metadata"]["resourceVersion"]
