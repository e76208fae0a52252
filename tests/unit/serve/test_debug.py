"""The debug pages show the data of their sources, within limits, without secrets."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

from scheduler.serve.answers import LARGEST_PAGE_BYTES
from tests.unit.serve.conftest import ServerRig


class Decided(msgspec.Struct, rename="camel", frozen=True):
    """A record as the engine may return it."""

    pod: str
    chosen_node: str | None = None


async def test_configz_is_under_the_key_of_kube_scheduler_and_masked(rig: ServerRig):
    """`componentconfig` holds the effective configuration; possible secrets are hidden."""
    config = {
        "kind": "X",
        "prometheus": {"bearerToken": "hush", "tokens": 3},
        "list": [Decided("p")],
    }
    async with rig.serving(configz=lambda: {"componentconfig": config}) as visitor:
        visitor.token = "good"
        text = await visitor.page("/configz")

    assert {
        "componentconfig": {
            "kind": "X",
            "prometheus": {"bearerToken": "***", "tokens": 3},
            "list": [{"pod": "p", "chosenNode": None}],
        }
    } == json.loads(text)


async def test_lists_are_bounded_by_limit(rig: ServerRig):
    """`?limit=` reaches the source; without it there is a default, and an invalid one is 400."""
    async with rig.serving() as visitor:
        visitor.token = "good"
        assert 500 == len(json.loads(await visitor.page("/debug/state"))["nodes"])
        assert 3 == len(json.loads(await visitor.page("/debug/state?limit=3"))["nodes"])
        assert 7 == json.loads(await visitor.page("/debug/queues?limit=7"))["limit"]
        for wrong in ("0", "-1", "10001", "x", "", "9" * 400, "٣"):
            assert 400 == (await visitor.get("/debug/queues", params={"limit": wrong}))[0], wrong


async def test_page_that_is_too_large_is_refused_with_advice(rig: ServerRig):
    """More than the largest page is 413, and the message says what to do."""
    async with rig.serving(state=lambda _: "x" * LARGEST_PAGE_BYTES) as visitor:
        visitor.token = "good"
        status, _, text = await visitor.get("/debug/state")

    assert 413 == status
    assert "?limit=" in json.loads(text)["message"]


async def test_decision_by_namespace_and_name(rig: ServerRig):
    """A known pod's decision is shown, an unknown one is 404 as a Status that names the pod."""
    async with rig.serving(
        decision=lambda ns, name, _most: Decided(f"{ns}/{name}", "n1") if name == "a" else None
    ) as visitor:
        visitor.token = "good"
        found = json.loads(await visitor.page("/debug/decisions/default/a"))
        status, _, text = await visitor.get("/debug/decisions/default/b")

    assert {"pod": "default/a", "chosenNode": "n1"} == found
    assert 404 == status
    assert 'no decision about pod "default/b" is kept' == json.loads(text)["message"]


async def test_stacks_show_where_each_task_waits(rig: ServerRig):
    """Every task is listed by name with its whole chain of awaits, without paths of the machine."""
    gate = asyncio.Event()

    async def inner() -> None:
        await gate.wait()

    async def outer() -> None:
        await inner()

    task = asyncio.create_task(outer(), name="a-task-of-mine")
    async with rig.serving() as visitor:
        visitor.token = "good"
        text = await visitor.page("/debug/stacks")
    gate.set()
    await task

    lines = text[text.index("a-task-of-mine") :].splitlines()[1:4]
    assert ["outer", "inner", "wait"] == [line.rpartition(".")[2].split()[-1] for line in lines]
    assert __file__ not in text


async def test_verbosity_is_put_as_to_kube_scheduler(rig: ServerRig):
    """`PUT /debug/flags/v` takes a number and confirms it with klog's text; an invalid one is
    400.
    """
    async with rig.serving() as visitor:
        visitor.token = "good"
        status, _, text = await visitor.get("/debug/flags/v", method="PUT", data="4\n")
        assert (200, "successfully set klog.logging.verbosity to 4\n") == (status, text)
        for wrong in ("", "x", "-1", "11", "99999", "٣", b"\xff"):
            assert 400 == (await visitor.get("/debug/flags/v", method="PUT", data=wrong))[0]
        assert 413 == (await visitor.get("/debug/flags/v", method="PUT", data="4" * 99999))[0]
    assert [4] == rig.verbosity


async def test_overviews_for_people_and_programs(rig: ServerRig):
    """`/statusz` and `/flagz` are text, and JSON if the request accepts it.

    Secrets are masked in both.
    """
    as_json = {"Accept": "application/json"}
    async with rig.serving() as visitor:
        visitor.token = "good"
        statusz = await visitor.page("/statusz")
        flagz = await visitor.page("/flagz")
        status_record = json.loads(await visitor.page("/statusz", headers=as_json))
        flags = json.loads(await visitor.page("/flagz", headers=as_json))

    assert "Up: 1 hr 02 min 05 sec\n" in statusz
    assert "Binary version: 0.1.0\n" in statusz
    assert (3725, "trellis") == (status_record["upSeconds"], status_record["name"])
    assert "config=/etc/trellis.yaml\ntoken=***\n" in flagz
    assert {"config": "/etc/trellis.yaml", "token": "***"} == flags


@pytest.mark.parametrize("path", ["/configz", "/debug/state", "/debug/decisions/default/a"])
async def test_fault_of_a_source_is_500_that_says_nothing(rig: ServerRig, logged: Any, path: str):
    """Details of a fault go to the log, not to the reader; the next request is served."""

    def broken(*_: object) -> object:
        raise RuntimeError("inner details")

    async with rig.serving(configz=broken, state=broken, decision=broken) as visitor:
        visitor.token = "good"
        status, _, text = await visitor.get(path)
        await visitor.page("/flagz")

    assert 500 == status
    assert "inner" not in text
    assert "endpoint failed" == logged[0]["event"]


async def test_profiles_are_taken_one_at_a_time_within_limits(rig: ServerRig):
    """A profile runs for the requested time; 404 means that the configuration allows none."""
    taken: list[float] = []
    began, gate = asyncio.Event(), asyncio.Event()

    async def take(seconds: float) -> bytes:
        taken.append(seconds)
        began.set()
        await gate.wait()
        return b"profile"

    rig.reviewer.allowed |= {("eve", "get", "/debug/pprof/profile")}
    async with rig.serving(profile=take) as visitor:
        visitor.token = "good"
        for seconds in ("0", "301", "-1", "x", "1e3", "9999"):
            status, _, text = await visitor.get(f"/debug/pprof/profile?seconds={seconds}")
            assert (400, True) == (status, "from 1 to 300" in text)
        first = asyncio.create_task(visitor.page("/debug/pprof/profile?seconds=7"))
        await began.wait()
        status, _, _ = await visitor.get("/debug/pprof/profile")
        assert status == 429
        gate.set()
        assert "profile" == await first
        assert "profile" == await visitor.page("/debug/pprof/profile")
        assert [7, 30] == taken
    async with rig.serving(profile=None) as visitor:
        visitor.token = "good"
        status, _, text = await visitor.get("/debug/pprof/profile")
        assert status == 404
        assert "enableProfiling is false" in text


async def test_attempts_and_histories(rig: ServerRig):
    """The page has the records of their sources."""
    rig.reviewer.allowed |= {
        ("eve", "get", path) for path in ("/debug/decisions", "/debug/history/shop/web")
    }
    async with rig.serving() as visitor:
        visitor.token = "good"
        assert {"limit": 3} == json.loads(await visitor.page("/debug/decisions?limit=3"))
        reported = json.loads(await visitor.page("/debug/history/shop/web"))
        assert "shop/web" == reported["pod"]
