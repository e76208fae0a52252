"""Watches: their events, start, selectors and end."""

from tests.apiserver.api import STRATEGIC_PATCH, TABLE, Api
from tests.apiserver.manifests import binding, config, pod


async def version_of(api: Api, where: str = "configmaps") -> str:
    return str((await api.get(where, record=False)).meta["resourceVersion"])


async def test_changes_arrive_in_order(api: Api):
    """ADDED, MODIFIED and DELETED have the object at the time of the event."""
    start = await version_of(api)
    async with await api.watch("configmaps", resourceVersion=start) as stream:
        await api.post("configmaps", config("w", a="1"))
        await api.put("configmaps/w", config("w", a="2"))
        await api.delete("configmaps/w")
        got = await stream.types(3)

    assert [("ADDED", "w"), ("MODIFIED", "w"), ("DELETED", "w")] == got


async def test_versions_rise(api: Api):
    """Every event has a higher version than the previous one, also a deletion."""
    start = await version_of(api)
    async with await api.watch("configmaps", resourceVersion=start) as stream:
        await api.post("configmaps", config("w", a="1"))
        await api.put("configmaps/w", config("w", a="2"))
        await api.delete("configmaps/w")
        versions = [
            int((await stream.next())["object"]["metadata"]["resourceVersion"]) for _ in range(3)
        ]

    assert versions == sorted(set(versions))


async def test_a_watch_resumes_after_a_version(api: Api):
    """Writes after the version arrive, earlier ones do not."""
    await api.post("configmaps", config("before"))
    middle = await api.post("configmaps", config("middle"))
    await api.post("configmaps", config("after"))
    version = middle.meta["resourceVersion"]
    async with await api.watch("configmaps", resourceVersion=version) as stream:
        assert [("ADDED", "after")] == await stream.types(1)


async def test_a_watch_without_version_starts_with_what_is(api: Api):
    """Synthetic ADDED events first, then changes."""
    await api.post("leases", {"metadata": {"name": "a"}})
    async with await api.watch("leases") as stream:
        first = await stream.types(1)
        await api.post("leases", {"metadata": {"name": "b"}})
        second = await stream.types(1)

    assert [("ADDED", "a"), ("ADDED", "b")] == first + second


async def test_a_watch_from_zero_starts_with_what_is(api: Api):
    """The same events are sent for resourceVersion=0."""
    await api.post("leases", {"metadata": {"name": "a"}})
    async with await api.watch("leases", resourceVersion="0") as stream:
        assert [("ADDED", "a")] == await stream.types(1)


async def test_label_selector_makes_entering_and_leaving(api: Api):
    """An object that starts to match is ADDED, one that stops is DELETED."""
    start = await version_of(api)
    query = {"labelSelector": "show=yes", "resourceVersion": start}
    async with await api.watch("configmaps", **query) as stream:
        body = config("w")
        await api.post("configmaps", body)
        await api.patch("configmaps/w", {"metadata": {"labels": {"show": "yes"}}})
        await api.patch("configmaps/w", {"data": {"a": "1"}})
        await api.patch("configmaps/w", {"metadata": {"labels": {"show": "no"}}})
        await api.patch("configmaps/w", {"data": {"a": "2"}})
        await api.patch("configmaps/w", {"metadata": {"labels": {"show": "yes"}}})
        await api.delete("configmaps/w")
        got = [kind for kind, _ in await stream.types(5)]

    assert ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"] == got


async def test_field_selector_follows_pods_of_a_phase(api: Api):
    """A finished pod is DELETED for a scheduler's watch."""
    start = await version_of(api, "pods")
    selector = "status.phase!=Succeeded,status.phase!=Failed"
    query = {"fieldSelector": selector, "resourceVersion": start}
    async with await api.watch("pods", **query) as stream:
        await api.post("pods", pod())
        done = {"status": {"phase": "Succeeded"}}
        await api.patch("pods/p/status", done, kind=STRATEGIC_PATCH)
        got = await stream.types(2)

    assert [("ADDED", "p"), ("DELETED", "p")] == got


async def test_field_selector_follows_pods_of_a_node(api: Api):
    """A kubelet's watch: a pod appears when it is bound."""
    start = await version_of(api, "pods")
    query = {"fieldSelector": "spec.nodeName=n1", "resourceVersion": start}
    async with await api.watch("pods", **query) as stream:
        await api.post("pods", pod())
        await api.post("pods/p/binding", binding("p", "n1"))
        assert [("ADDED", "p")] == await stream.types(1)


async def test_watch_of_one_name(api: Api):
    """metadata.name restricts the watch to one object."""
    start = await version_of(api)
    query = {"fieldSelector": "metadata.name=b", "resourceVersion": start}
    async with await api.watch("configmaps", **query) as stream:
        await api.post("configmaps", config("a"))
        await api.post("configmaps", config("b"))
        assert [("ADDED", "b")] == await stream.types(1)


async def test_a_watch_ends_at_its_time_limit(api: Api):
    """timeoutSeconds closes the stream in an orderly way."""
    start = await version_of(api)
    async with await api.watch("configmaps", resourceVersion=start, timeoutSeconds=1) as stream:
        assert await stream.next() is None


async def test_initial_events_need_a_match(api: Api):
    """sendInitialEvents without resourceVersionMatch is refused."""
    async with await api.watch("leases", sendInitialEvents="true") as stream:
        assert 422 == stream.code


async def test_watch_across_namespaces(api: Api):
    """Without a namespace in the path all namespaces are watched."""
    start = await version_of(api, "/api/v1/configmaps")
    label = f"only={api.mark}"
    query = {"resourceVersion": start, "labelSelector": label}
    async with await api.watch("/api/v1/configmaps", **query) as stream:
        body = config("w")
        body["metadata"]["labels"] = {"only": api.mark}
        await api.post("configmaps", body, record=False)
        event = await stream.next()

    assert api.ns == event["object"]["metadata"]["namespace"]


async def test_watch_as_tables(api: Api):
    """kubectl get -w: one row per event, columns in the first one only."""
    start = await version_of(api)
    async with await api.watch("configmaps", accept=TABLE, resourceVersion=start) as stream:
        await api.post("configmaps", config("w", a="1"), record=False)
        await api.put("configmaps/w", config("w", a="2", b="3"), record=False)
        first = await stream.next()
        second = await stream.next()

    assert "Table" == first["object"]["kind"]
    assert first["object"]["columnDefinitions"]
    assert not second["object"]["columnDefinitions"]
    assert ["w", 2] == second["object"]["rows"][0]["cells"][:2] or second["object"]["rows"]


async def test_a_status_write_is_one_event(api: Api):
    """A patch of the status arrives once."""
    made = await api.post("pods", pod())
    async with await api.watch("pods", resourceVersion=made.meta["resourceVersion"]) as stream:
        running = {"status": {"phase": "Running"}}
        await api.patch("pods/p/status", running, kind=STRATEGIC_PATCH)
        await api.patch("pods/p/status", running, kind=STRATEGIC_PATCH)
        await api.patch("pods/p", {"metadata": {"labels": {"last": "yes"}}})
        first, second = await stream.next(), await stream.next()

    assert "Running" == first["object"]["status"]["phase"]
    assert {"last": "yes"} == second["object"]["metadata"]["labels"]
