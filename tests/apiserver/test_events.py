"""Events in both API versions."""

from typing import Any

from tests.apiserver.api import Api

V1 = "/apis/events.k8s.io/v1/namespaces/{ns}/events"


def event(api: Api, name: str = "e", **rest: Any) -> dict[str, Any]:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": api.ns},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "trellis",
        "reportingInstance": "trellis-host",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": "Successfully assigned",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p",
            "namespace": api.ns,
            "uid": "u1",
        },
        **rest,
    }


async def test_an_event_shows_in_both_versions(api: Api):
    """Written as events.k8s.io/v1, read as v1 too."""
    new = V1.format(ns=api.ns)
    made = await api.post(new, event(api))
    core = await api.get("events/e")
    again = await api.get(f"{new}/e")

    assert 201 == made.code
    assert "Successfully assigned" == core.body["message"]
    assert "Successfully assigned" == again.body["note"]


async def test_a_core_event_shows_as_new(api: Api):
    """Written as v1, read as events.k8s.io/v1."""
    body = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": api.ns},
        "reason": "Started",
        "message": "m",
        "type": "Normal",
        "source": {"component": "kubelet", "host": "n1"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 3,
    }
    await api.post("events", body)
    new = await api.get(f"{V1.format(ns=api.ns)}/e")

    assert 3 == new.body["deprecatedCount"]
    assert "kubelet" == new.body["deprecatedSource"]["component"]


async def test_series_are_patched(api: Api):
    """A repeated event is patched with a series."""
    new = V1.format(ns=api.ns)
    await api.post(new, event(api))
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:05.000000Z"}}
    got = await api.patch(f"{new}/e", series)

    assert 2 == got.body["series"]["count"]


async def test_events_are_selected_by_their_object(api: Api):
    """Events can be selected as kubectl describe does."""
    await api.post(V1.format(ns=api.ns), event(api), record=False)
    other = event(api, "other")
    other["regarding"] = {**other["regarding"], "name": "q", "uid": "u2"}
    await api.post(V1.format(ns=api.ns), other, record=False)
    selector = f"involvedObject.name=p,involvedObject.namespace={api.ns},involvedObject.uid=u1"
    core = await api.get("events", fieldSelector=selector)
    reason = await api.get("events", fieldSelector="reason=Scheduled,type=Normal")

    assert ["e"] == core.names
    assert ["e", "other"] == reason.names


async def test_events_are_watched_in_both_versions(api: Api):
    """One write is watched in both versions."""
    start = (await api.get("events", record=False)).meta["resourceVersion"]
    new = V1.format(ns=api.ns)
    async with (
        await api.watch("events", resourceVersion=start) as core,
        await api.watch(new, resourceVersion=start) as later,
    ):
        await api.post(new, event(api))
        first, second = await core.next(), await later.next()

    assert "Successfully assigned" == first["object"]["message"]
    assert "Successfully assigned" == second["object"]["note"]


async def test_an_event_needs_its_fields(api: Api):
    """events.k8s.io/v1 requires the reporter's fields."""
    body = event(api)
    del body["action"]

    assert 422 == (await api.post(V1.format(ns=api.ns), body, record=False)).code
