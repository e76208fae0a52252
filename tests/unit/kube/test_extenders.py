"""Extenders over real sockets: the requests, the parsing of answers, and the result of every
failure.
"""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from scheduler.base.clock import ManualClock
from scheduler.base.errors import ConfigError
from scheduler.base.meters import Meters
from scheduler.config.model import Extender, ExtenderTLSConfig
from scheduler.engine.effects import AskExtender, Complete, ExtenderAnswer, Listed, Watched
from scheduler.framework.calls import Offer
from scheduler.kube import extenders as extenders_module
from scheduler.kube.extenders import Extenders
from scheduler.kube.watching.decode import Decoder
from scheduler.kube.writing.fence import Fence, FencedError
from scheduler.objects.kinds import BY_KIND
from tests.apiserver.certificates import write_certificates
from tests.e2e.extenderserver import ExtenderServer, Json, Rule, extender_server, never

VERBS: dict[str, Any] = {
    "filter_verb": "sift",
    "prioritize_verb": "rank",
    "preempt_verb": "spare",
    "bind_verb": "tie",
    "weight": 1,
}


def whole_pod(name: str, **spec: Any) -> Json:
    """Return a pod as the API server sends it, with fields that Trellis drops."""
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "managedFields": [{}]}
    spec = {"containers": [{"name": "c", "image": "i", "env": [{"name": "A"}]}], **spec}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec}


def whole_node(name: str) -> Json:
    """Return a node as the API server sends it."""
    meta = {"name": name, "annotations": {"kept": "yes"}, "managedFields": [{}]}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": meta,
        "spec": {"podCIDR": "10.0.0.0/24"},
    }


def shown(obj: Json) -> Json:
    """Return an object as extenders see it."""
    meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    rest = {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
    return {**rest, "metadata": meta}


def feed(extenders: Extenders, kind: str, *objects: Json) -> None:
    """Decode objects with the watch's decoder, as a page of a list."""
    decoder = Decoder(BY_KIND[kind], lambda _: None, extenders.raw_objects.keeper(kind))
    decoder.page(msgspec.json.encode({"metadata": {}, "items": objects}))


@asynccontextmanager
async def responding(
    rule: Rule, *, tls: ssl.SSLContext | None = None, fence: Fence | None = None, **fields: Any
) -> AsyncIterator[tuple[Extenders, ExtenderServer]]:
    """Run one extender and its client; `p`, `low` and two nodes are known."""
    async with extender_server(rule, tls) as server:
        wanted = {"url_prefix": server.url, "http_timeout": "5s", **VERBS, **fields}
        fence = fence or Fence(ManualClock(), inf)
        extenders = Extenders([Extender(**wanted)], fence, Meters())
        feed(extenders, "Pod", whole_pod("p"), whole_pod("low", nodeName="n1"))
        feed(extenders, "Node", whole_node("n1"), whole_node("n2"))
        try:
            yield extenders, server
        finally:
            await extenders.close()


def question(verb: str, *nodes: str, offers: tuple[Offer, ...] = ()) -> AskExtender:
    """Return a question about the pod `p`."""
    return AskExtender(7, 0, verb, "default", "p", "uid-p", nodes, offers)


async def ask(extenders: Extenders, verb: str, *nodes: str, **more: Any) -> Any:
    """Return the answer to a question."""
    reply, _ = await extenders.carry(question(verb, *nodes, **more), 0.0)
    assert 7 == reply.effect
    return reply


def saying(answer: Any) -> Rule:
    """Return a rule with a fixed answer."""

    async def rule(_verb: str, _body: Json) -> Any:
        return answer

    return rule


# Requests.


async def test_a_filter_is_shown_whole_objects():
    """Pod and nodes as the API server has them, without type and managed fields."""
    answer = {"Nodes": {"items": [whole_node("n2")]}, "FailedNodes": {"n1": "old"}}
    async with responding(saying(answer)) as (extenders, server):
        reply = await ask(extenders, "filter", "n1", "n2")

    nodes = [shown(whole_node("n1")), shown(whole_node("n2"))]
    listed = {"metadata": {}, "items": nodes}
    assert [("sift", {"Pod": shown(whole_pod("p")), "Nodes": listed, "NodeNames": None})] == (
        server.asked
    )
    assert ExtenderAnswer(nodes=("n2",), failed={"n1": "old"}) == reply.body


async def test_an_extender_that_knows_nodes_is_shown_names():
    """Nodes are not even stored for it."""
    answer = {"NodeNames": ["n1"], "FailedAndUnresolvableNodes": {"n2": "never"}}
    async with responding(saying(answer), node_cache_capable=True) as (extenders, server):
        assert None is extenders.raw_objects.keeper("Node")
        reply = await ask(extenders, "filter", "n1", "n2")

    body = {"Pod": shown(whole_pod("p")), "Nodes": None, "NodeNames": ["n1", "n2"]}
    assert [("sift", body)] == server.asked
    assert ExtenderAnswer(nodes=("n1",), unresolvable={"n2": "never"}) == reply.body


async def test_priorities_are_a_list():
    """The list has hosts with scores, in any case of the keys."""
    answer = [{"Host": "n1", "Score": 3}, {"host": "n2", "score": -4}]
    async with responding(saying(answer)) as (extenders, server):
        reply = await ask(extenders, "prioritize", "n1", "n2")

    assert "rank" == server.asked[0][0]
    assert (("n1", 3), ("n2", -4)) == reply.body.scores


@pytest.mark.parametrize("by_name", [True, False])
async def test_victims_are_shown_whole_or_by_uid(*, by_name: bool):
    """The answers always have uids."""
    answer = {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "uid-low"}]}, "n2": None}}
    offers = (Offer("n1", ("uid-low",), 1),)
    async with responding(saying(answer), node_cache_capable=by_name) as (extenders, server):
        reply = await ask(extenders, "preempt", offers=offers)

    ((verb, body),) = server.asked
    whole = {"n1": {"Pods": [shown(whole_pod("low", nodeName="n1"))], "NumPDBViolations": 1}}
    meta = {"n1": {"Pods": [{"UID": "uid-low"}], "NumPDBViolations": 1}}
    assert "spare" == verb
    assert body == {
        "Pod": shown(whole_pod("p")),
        "NodeNameToVictims": None if by_name else whole,
        "NodeNameToMetaVictims": meta if by_name else None,
    }
    assert (Offer("n1", ("uid-low",)), Offer("n2", ())) == reply.body.offers


async def test_a_bind_names_pod_and_node():
    """An empty answer is a success."""
    async with responding(saying({})) as (extenders, server):
        reply = await ask(extenders, "bind", "n2")

    body = {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "n2"}
    assert [("tie", body)] == server.asked
    assert reply.ok


async def test_connections_are_used_again():
    """Consecutive requests need one connection."""
    async with responding(saying({"NodeNames": []}), node_cache_capable=True) as (
        extenders,
        server,
    ):
        for _ in range(5):
            await ask(extenders, "filter", "n1")

    assert (5, 1) == (len(server.asked), len(server.connections))


# How answers are read.


@pytest.mark.parametrize(
    ("answer", "nodes"),
    [
        (None, ()),
        ({}, ()),
        ({"nodenames": ["n1"], "error": None, "Extra": 1}, ("n1",)),
        ({"NodeNames": None, "Nodes": {"items": [{"metadata": {"name": "n2"}}]}}, ("n2",)),
        ({"Nodes": {"items": None}}, ()),
    ],
)
async def test_answers_are_read_as_go_reads_them(answer: Any, nodes: tuple[str, ...]):
    """Capitals do not matter, nulls are empty, unknown fields are skipped."""
    async with responding(saying(answer), node_cache_capable=True) as (extenders, _):
        reply = await ask(extenders, "filter", "n1", "n2")

    assert nodes == reply.body.nodes


async def test_names_mean_nothing_from_an_extender_that_is_shown_nodes():
    """Nodes are read in this case, as kube-scheduler does."""
    async with responding(saying({"NodeNames": ["n1"]})) as (extenders, _):
        reply = await ask(extenders, "filter", "n1")

    assert () == reply.body.nodes


async def test_its_own_error_is_handed_on():
    """The text of an extender's error reaches the engine; after a failed bind the result is
    unknown.
    """
    async with responding(saying({"Error": "no"})) as (extenders, _):
        assert "no" == (await ask(extenders, "filter", "n1")).body.error
        bind = await ask(extenders, "bind", "n1")

    assert (0, "no") == (bind.code, bind.message)


# Failures.


async def test_another_status_than_200_is_a_failure():
    """The message is that of kube-scheduler."""
    async with responding(saying(web.Response(status=503, text="busy"))) as (extenders, server):
        reply = await ask(extenders, "filter", "n1")

    text = f"failed sift with extender at URL {server.url}/sift, code 503"
    assert (0, text) == (reply.code, reply.message)


@pytest.mark.parametrize(
    "answer", ["text", {"NodeNames": [1]}, {"FailedNodes": {"n": 1}}, [{"Host": "n"}]]
)
async def test_an_answer_of_another_shape_is_a_failure(answer: Any):
    """The message states it; no value is guessed."""
    async with responding(saying(answer), node_cache_capable=True) as (extenders, _):
        reply = await ask(extenders, "filter", "n1")

    assert 0 == reply.code
    assert "did not answer as it should" in reply.message


async def test_an_answer_that_is_too_long_is_a_failure(monkeypatch: pytest.MonkeyPatch):
    """The answer is not read to its end."""
    monkeypatch.setattr(extenders_module, "MOST_BYTES", 1000)
    async with responding(saying({"Error": "x" * 2000})) as (extenders, _):
        reply = await ask(extenders, "filter", "n1")

    assert "longer than 1000 bytes" in reply.message


async def test_a_long_answer_is_read_elsewhere():
    """The result is the same."""
    answer = {"NodeNames": ["n1"], "Filler": "x" * extenders_module.LONG_BYTES}
    async with responding(saying(answer), node_cache_capable=True) as (extenders, _):
        reply = await ask(extenders, "filter", "n1")

    assert ("n1",) == reply.body.nodes


async def test_no_answer_in_time():
    """The extender's own time limit ends it."""
    async with responding(never, http_timeout="50ms") as (extenders, server):
        reply = await ask(extenders, "filter", "n1")

    assert reply.message.startswith(f'Post "{server.url}/sift": context deadline exceeded')


async def test_an_unreachable_extender():
    """A refused connection names the URL."""
    async with responding(saying({})) as (_, server):
        pass
    gone = Extender(url_prefix=f"{server.url}/", filter_verb="sift", http_timeout="1s")
    extenders = Extenders([gone], Fence(ManualClock(), inf), Meters())
    feed(extenders, "Pod", whole_pod("p"))
    reply = await ask(extenders, "filter", "n1")
    await extenders.close()

    assert f'Post "{server.url}/sift": connect: connection refused' == reply.message


async def test_a_pod_that_is_gone_is_not_asked_about():
    """The watch has reported the deletion, and the engine receives it soon."""
    async with responding(saying({})) as (extenders, server):
        extenders.raw_objects.note(Complete("Pod", ("uid-low",)))
        reply = await ask(extenders, "filter", "n1")

    assert (0, "pod default/p is gone", []) == (reply.code, reply.message, server.asked)


async def test_nothing_is_bound_behind_the_fence():
    """A bind is a write; other verbs are not."""
    fence = Fence(ManualClock(), inf)
    async with responding(saying({}), fence=fence) as (extenders, server):
        fence.close()
        with pytest.raises(FencedError):
            await ask(extenders, "bind", "n1")
        await ask(extenders, "filter", "n1")

    assert ["sift"] == [verb for verb, _ in server.asked]


async def test_what_takes_how_long_is_measured():
    """The histogram has extender, verb and result; scoring in progress counts as in
    kube-scheduler.
    """
    release, started = asyncio.Event(), asyncio.Event()

    async def slow(verb: str, _body: Json) -> Any:
        started.set()
        await release.wait()
        return []

    async with extender_server(slow) as server:
        meters = Meters()
        wanted = Extender(url_prefix=server.url, http_timeout="5s", **VERBS)
        extenders = Extenders([wanted], Fence(ManualClock(), inf), meters)
        feed(extenders, "Pod", whole_pod("p"))
        task = asyncio.create_task(ask(extenders, "prioritize", "n1"))
        await started.wait()
        under_way = {s.labels: s.value for s in meters.goroutines.samples()}
        release.set()
        await task
        await extenders.close()
        labels = [sample.labels for sample in meters.extender_duration.samples()]

    assert 1 == under_way["prioritizing_extender",]
    assert [(server.url, "prioritize", "ok")] == labels


# Which objects are kept.


def test_only_what_may_be_shown_is_kept():
    """Bound pods only for an extender that reviews whole victims, nodes only for one that receives
    whole nodes.
    """
    cases: tuple[tuple[dict[str, Any], bool, bool], ...] = (
        ({"filter_verb": "f"}, False, True),
        ({"preempt_verb": "p"}, True, False),
        ({"preempt_verb": "p", "filter_verb": "f", "node_cache_capable": True}, False, False),
        ({"bind_verb": "b"}, False, False),
    )
    for fields, bound, nodes in cases:
        wanted = Extender(url_prefix="http://x", http_timeout="1s", **fields)
        extenders = Extenders([wanted], Fence(ManualClock()), Meters())
        feed(extenders, "Pod", whole_pod("low", nodeName="n1"))
        feed(extenders, "Node", whole_node("n1"))
        assert bound == (extenders.raw_objects.pod("uid-low") is not None), fields
        assert nodes == (extenders.raw_objects.node("n1") is not None), fields


def test_what_the_watch_says_is_followed():
    """Changes replace, deletions and lists remove, a bound pod is dropped."""
    wanted = Extender(url_prefix="http://x", filter_verb="f", http_timeout="1s")
    kept = Extenders([wanted], Fence(ManualClock()), Meters()).raw_objects
    decoder = Decoder(BY_KIND["Pod"], lambda _: None, kept.keeper("Pod"))

    def line(verb: str, pod: Json) -> None:
        found = decoder.line(msgspec.json.encode({"type": verb, "object": pod}))
        assert isinstance(found, Watched)
        kept.note(found)

    line("ADDED", whole_pod("p"))
    line("MODIFIED", whole_pod("p", priority=3))
    assert b'"priority":3' in (kept.pod("uid-p") or b"")
    line("MODIFIED", whole_pod("p", nodeName="n1"))
    assert None is kept.pod("uid-p")
    line("ADDED", whole_pod("q"))
    line("DELETED", whole_pod("q"))
    assert None is kept.pod("uid-q")
    line("ADDED", whole_pod("r", hostNetwork=None, priority=None))
    assert None is not kept.pod("uid-r")
    kept.note(Listed("Pod"))
    assert None is kept.pod("uid-r")


# TLS.


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give certificates of an authority for localhost."""
    path = tmp_path_factory.mktemp("tls")
    write_certificates(path)
    return path


def serving(folder: Path, *, wants_client: bool = False) -> ssl.SSLContext:
    """Return the TLS side of an extender."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.crt"))
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED if wants_client else ssl.CERT_NONE
    return context


def data(path: Path) -> str:
    """Return a file as the configuration carries it."""
    return base64.b64encode(path.read_bytes()).decode()


@pytest.mark.allow_blocking("certificates are read once, at start")
@pytest.mark.parametrize("as_data", [True, False])
async def test_both_sides_show_certificates(folder: Path, *, as_data: bool):
    """Certificates come from files or from the configuration itself; the server's name may be
    given.
    """
    ca, crt, key = (folder / name for name in ("ca.crt", "server.crt", "server.key"))
    if as_data:
        tls = ExtenderTLSConfig(ca_data=data(ca), cert_data=data(crt), key_data=data(key))
    else:
        tls = ExtenderTLSConfig(ca_file=str(ca), cert_file=str(crt), key_file=str(key))
    tls = msgspec.structs.replace(tls, server_name="localhost")
    server_tls = serving(folder, wants_client=True)
    async with responding(saying({}), tls=server_tls, enable_https=True, tls_config=tls) as (
        one,
        _,
    ):
        assert (await ask(one, "filter", "n1")).ok


async def test_without_a_ca_nothing_is_checked_if_https_is_enabled(folder: Path):
    """kube-scheduler's rule; without enableHTTPS the system's authorities are used."""
    async with responding(saying({}), tls=serving(folder), enable_https=True) as (blind, _):
        assert (await ask(blind, "filter", "n1")).ok
    async with responding(saying({}), tls=serving(folder)) as (careful, _):
        reply = await ask(careful, "filter", "n1")

    assert not reply.ok
    assert "certificate verify failed" in reply.message


@pytest.mark.parametrize(
    ("tls", "text"),
    [
        ({"ca_data": "!"}, "tlsConfig cannot be used"),
        ({"ca_file": "/nowhere"}, "No such file or directory: '/nowhere'"),
        ({"cert_data": "YQ=="}, "a client key is missing"),
        ({"insecure": True, "ca_file": "ca.crt"}, "insecure flag is not allowed"),
    ],
)
def test_certificates_that_cannot_be_used(tls: dict[str, Any], text: str):
    """The daemon does not start, and names the extender."""
    wanted = Extender(
        url_prefix="https://x", http_timeout="1s", tls_config=ExtenderTLSConfig(**tls)
    )
    with pytest.raises(ConfigError, match=text):
        Extenders([wanted], Fence(ManualClock()), Meters())
