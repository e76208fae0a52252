"""Faults in simulated clusters equal the answers of a real API server.

tests/real/test_answers.py recorded the answers when etcd is stopped or gone, under overload, and
without history; answers to invalid requests are recorded in tests/apiserver.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.kube.api import JSON, Response, failure
from scheduler.kube.writing.outcome import answer
from tests.simulated import actions, answers, bugscenarios, fullnodes, races
from tests.unit.kube.memoryapi import Accident, MemoryApi

RECORDED = Path(__file__).with_name("answers.json")
CASES = Path(__file__).parents[1] / "apiserver" / "recorded"


def read(part: str) -> dict[str, dict[str, Any]]:
    """Return the records by fault: in `fault_share`, or about `history`."""
    found: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text())[part]
    return found


def _real() -> set[tuple[int, str]]:
    """Return code and reason of every failure recorded from a real server."""
    found = {(reported["code"], reported["reason"]) for reported in read("trouble").values()}
    for file in CASES.glob("*.json"):
        for case in json.loads(file.read_text()).values():
            for entry in case:
                body = entry.get("body")
                if entry.get("code", 200) >= 400:
                    reason = body.get("reason", "") if isinstance(body, dict) else ""
                    found.add((entry["code"], reason))
    return found


def _made_up() -> Iterator[Response]:
    """Yield the responses that actions give to requests in place of the server."""
    for part in (actions, bugscenarios, races, fullnodes):
        for value in vars(part).values():
            for one in value if isinstance(value, tuple) else (value,):
                response = one.response if isinstance(one, Accident) else one
                if isinstance(response, Response) and response.code:
                    yield response


def test_invented_answers_equal_those_of_a_real_server():
    """Code and reason belong together in exactly the recorded pairs."""
    real = _real()
    made_up = {(response.code, response.reason) for response in _made_up()}

    assert {401, 403, 404, 429, 500, 503, 504} <= {code for code, _ in made_up}
    assert set() == made_up - real


@pytest.mark.parametrize("what", read("trouble"))
def test_failed_requests_are_classified(what: str):
    """Without a response of etcd the result of a write is unknown.

    A request rejected by overload was not carried out.
    """
    reported = read("trouble")[what]
    status = {key: reported[key] for key in ("code", "reason", "message")}
    found = answer(1, failure(reported["code"], json.dumps(status).encode()))

    assert (found.code == 0) == (what != "one more write than the server takes at a time")


@pytest.mark.looptime
async def test_a_compacted_history_is_answered_as_by_a_real_server():
    """The store of the cluster forgets history like a server started anew on a compacted etcd."""
    api = MemoryApi()

    async def ask(method: str, path: str, body: Any) -> tuple[int, Any]:
        sent = json.dumps(body).encode() if body is not None else b""
        response = api.carry_out(method, path, sent, JSON)
        return response.code, json.loads(response.body)

    async def watch(path: str) -> tuple[int, Any]:
        async with api.stream(path, silence_s=3600) as stream:
            if not stream.head.ok:
                return stream.head.code, json.loads(stream.head.body)
            try:
                async with asyncio.timeout(8):
                    line = await stream.read()
            except TimeoutError:
                return 200, None
        return 200, json.loads(line)

    asked = await answers.before(ask)
    api.store.forget_history()

    assert read("history") == await answers.after(asked, ask, watch)
