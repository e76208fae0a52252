"""kubernetes-asyncio's methods over the daemon's connection: the requests, and the errors."""

import json
from typing import Any, NamedTuple

import pytest

from operators.client import Client
from scheduler.base.errors import ApiError
from scheduler.objects.kinds import BY_KIND

WHERE = ("slo.koordinator.sh", "v1alpha1", "nodemetrics")
PATH = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
MERGE = "application/merge-patch+json"


class Answer(NamedTuple):
    code: int
    body: bytes = b""
    message: str = ""


class Line:
    """A connection that records requests and returns prepared answers."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[str, str, Any, str, float]] = []

    async def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        content_type: str = "",
        timeout_s: float = 0.0,
    ) -> Answer:
        sent = json.loads(body) if body else None
        self.sent.append((method, path, sent, content_type, timeout_s))
        return self.answers.pop(0)


async def test_methods_become_requests():
    """Names are escaped, dictionaries merge, answers are plain JSON or models."""
    reported = {"metadata": {"name": "n"}, "status": {"x": [1, "é"]}}
    line = Line(
        Answer(200, json.dumps(reported).encode()),
        Answer(200, b"{}"),
        Answer(201, b"{}"),
        Answer(200, b'{"data": {"a": "b"}}'),
        Answer(200, b"as it is"),
    )
    client = Client(line, 7.0)

    assert reported == await client.custom.patch_cluster_custom_object_status(
        *WHERE, "n/a", reported
    )
    await client.custom.delete_cluster_custom_object(*WHERE, "n")
    await client.custom.create_cluster_custom_object(*WHERE, reported)
    assert {"a": "b"} == (await client.core.read_namespaced_config_map("c", "ns")).data
    assert b"as it is" == await client.fetch("/apis/metrics.k8s.io/v1beta1/nodes")
    assert [
        ("PATCH", f"{PATH}/n%2Fa/status", reported, MERGE, 7.0),
        ("DELETE", f"{PATH}/n", None, "application/json", 7.0),
        ("POST", PATH, reported, "application/json", 7.0),
        ("GET", "/api/v1/namespaces/ns/configmaps/c", None, "application/json", 7.0),
        ("GET", "/apis/metrics.k8s.io/v1beta1/nodes", None, "application/json", 7.0),
    ] == line.sent


@pytest.mark.parametrize(
    ("answer", "code", "reported"),
    [
        (Answer(409, b"{}", "has been modified"), 409, "409 has been modified"),
        (Answer(0), 0, "0 no answer"),
        (Answer(200, b"<html>"), 0, "no object"),
        (Answer(200, b"\xff"), 0, "no object"),
        (Answer(200, b"7"), 0, "no object"),
        (Answer(200, b'{"data": 7}'), 0, "no V1ConfigMap"),
    ],
)
async def test_every_failure_is_one_error(answer: Answer, code: int, reported: str):
    """Rejections of the server, missing answers and unreadable ones raise the same error."""
    with pytest.raises(ApiError, match=reported) as caught:
        await Client(Line(answer), 7.0).core.read_namespaced_config_map("c", "ns")

    assert code == caught.value.code


async def test_subresources_of_a_kind():
    """None for a group and for a kind that are not served; the names behind the slash otherwise."""
    kind = BY_KIND["NodeMetric"]
    names = ("nodemetrics", "nodemetrics/status", "nodemetricsets/scale")
    resources = [{"name": name, "kind": "NodeMetric"} for name in names]
    served = json.dumps({"resources": resources}).encode()
    other = json.dumps({"resources": resources[2:]}).encode()
    client = Client(Line(Answer(404), Answer(200, other), Answer(200, served), Answer(503)), 7.0)

    assert await client.subresources(kind) is None
    assert await client.subresources(kind) is None
    assert frozenset({"status"}) == await client.subresources(kind)
    with pytest.raises(ApiError, match="503"):
        await client.subresources(kind)
