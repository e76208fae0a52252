"""Netperf's rules without sockets: proofs, the plan of measurements, and the lifetime of
figures.
"""

import os
from collections import Counter
from pathlib import Path
from random import Random

import msgspec
import pytest

from operators.agents.netperf.keys import Keys
from operators.agents.netperf.latencies import LATENCIES, MEASURED, PROBES, Latencies
from operators.agents.netperf.links import SimulatedLinks
from operators.agents.netperf.peers import Peer, PeersOfFile, SliceList, peers_of
from operators.agents.netperf.plan import ProbePace, ProbePlan, first_turn, next_moment, plan_for
from operators.agents.netperf.protocol import (
    HEAD_BYTES,
    Hello,
    KeyVerdict,
    NetperfProtocolError,
    ProbeMode,
    answer,
    read_answer,
    read_hello,
    rest_of,
    signed,
)
from scheduler.base.errors import ConfigError

CHALLENGE = bytes(range(32))
HELLO = Hello(ProbeMode.LATENCY, 100, 0, b"n" * 32, "n1", "ñ2")


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return keys_of(tmp_path / "key", "0123456789abcdef")


def keys_of(path: Path, *lines: str) -> Keys:
    path.write_text("\n".join(lines) + "\n")
    return Keys(path)


def peer(node: str, zone: str = "") -> Peer:
    return Peer(node, "127.0.0.1", 1, zone)


def cluster(*sizes: int) -> list[Peer]:
    """Return nodes of zones of these sizes."""
    return [
        peer(f"z{zone}-n{number}", f"z{zone}")
        for zone, size in enumerate(sizes)
        for number in range(size)
    ]


def test_both_sides_prove_the_key(keys: Keys):
    """A signed request decodes to the same request, and a signed answer to the same verdict."""
    data = signed(HELLO, CHALLENGE, keys)
    hello, key = read_hello(data, CHALLENGE, keys)

    assert hello == HELLO
    assert len(data) == HEAD_BYTES + rest_of(data[:HEAD_BYTES])
    for verdict in KeyVerdict:
        stated = answer(verdict, hello, CHALLENGE, keys, key)
        assert read_answer(stated, HELLO, CHALLENGE, keys) is verdict


def test_changed_or_repeated_messages_have_no_valid_proof(keys: Keys, tmp_path: Path):
    """No proof is valid after a change of any bit of a hello or an answer, or with another
    challenge, nonce or key.
    """
    data = signed(HELLO, CHALLENGE, keys)
    stated = answer(KeyVerdict.YES, HELLO, CHALLENGE, keys, b"0123456789abcdef")
    other = keys_of(tmp_path / "other", "fedcba9876543210")
    for place in range(len(data)):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(NetperfProtocolError):
            read_hello(changed, CHALLENGE, keys)
    for place in range(len(stated)):
        changed = stated[:place] + bytes([stated[place] ^ 1]) + stated[place + 1 :]
        with pytest.raises(NetperfProtocolError):
            read_answer(changed, HELLO, CHALLENGE, keys)
    later = msgspec.structs.replace(HELLO, nonce=b"m" * 32)
    for refused in (
        lambda: read_hello(data, bytes(32), keys),
        lambda: read_hello(data, CHALLENGE, other),
        lambda: read_answer(stated, later, CHALLENGE, keys),
        lambda: read_answer(stated, HELLO, CHALLENGE, other),
    ):
        with pytest.raises(NetperfProtocolError):
            refused()


@pytest.mark.parametrize(
    ("mode", "amount", "limit_ms", "is_too_much"),
    [
        (ProbeMode.LATENCY, 1000, 0, False),
        (ProbeMode.LATENCY, 1001, 0, True),
        (ProbeMode.LATENCY, 0, 0, True),
        (ProbeMode.THROUGHPUT, 1 << 30, 10_000, False),
        (ProbeMode.THROUGHPUT, (1 << 30) + 1, 1000, True),
        (ProbeMode.THROUGHPUT, 1, 10_001, True),
        (ProbeMode.THROUGHPUT, 1, 0, True),
        (ProbeMode.THROUGHPUT, 0, 1, True),
    ],
)
def test_what_may_be_asked_for_is_limited(mode, amount, limit_ms, is_too_much):
    """The responder's own limits bound round trips, bytes and seconds."""
    assert Hello(mode, amount, limit_ms, b"", "", "").is_too_much is is_too_much


def test_names_have_a_length_that_is_known_before_they_are_read():
    """The longest hello is bounded by its head."""
    head = Hello(ProbeMode.LATENCY, 1, 0, bytes(32), "o" * 255, "d" * 255).encoded()[:HEAD_BYTES]

    assert rest_of(head) == 255 + 255 + 32


def test_a_key_is_replaced_without_a_gap(tmp_path: Path):
    """All keys of the file are accepted and the first one is used; an invalid file leaves the
    former keys in force.
    """
    path, first, second = tmp_path / "key", "the first key of all", "the second key of all"
    keys = keys_of(path, first)
    old, new = keys_of(tmp_path / "old", first), keys_of(tmp_path / "new", second)
    for moment, lines in enumerate([(first, second), (second, first), (second,)]):
        path.write_text("\n".join(lines))
        os.utime(path, (moment, moment))
        keys.refresh()
        peers = [one for one, key in ((old, first), (new, second)) if key in lines]
        for one in peers:
            assert read_hello(signed(HELLO, CHALLENGE, one), CHALLENGE, keys)[0] == HELLO
        assert read_hello(
            signed(HELLO, CHALLENGE, keys), CHALLENGE, {first: old, second: new}[lines[0]]
        )
    path.unlink()
    keys.refresh()
    assert read_hello(signed(HELLO, CHALLENGE, keys), CHALLENGE, new) == (HELLO, second.encode())
    assert second not in repr(keys)


@pytest.mark.parametrize("text", ["", "\n\n", "short", "0123456789abcdef\nshort"])
def test_a_file_without_a_good_key_is_refused_at_the_start(tmp_path: Path, text: str):
    """The error names the file."""
    path = tmp_path / "key"
    with pytest.raises(ConfigError, match="key"):
        Keys(path)
    path.write_text(text)
    with pytest.raises(ConfigError, match="at least 16 characters"):
        Keys(path)


@pytest.mark.parametrize("sizes", [(1, 1), (3, 1, 1), (7,), (12, 5, 9, 1), (4,) * 10])
@pytest.mark.parametrize("pairs", [1, 3])
def test_every_pair_has_a_measuring_node(sizes: tuple[int, ...], pairs: int):
    """Inside a zone each pair is measured by exactly one end; between zones there are one to
    `pairs` pairs.
    """
    peers = cluster(*sizes)
    plans = {one.node: plan_for(one, peers, pairs) for one in peers}
    near = Counter(
        frozenset((node, other.node)) for node, plan in plans.items() for other in plan.near
    )
    far = Counter(
        frozenset((node[:2], other.zone)) for node, plan in plans.items() for other in plan.far
    )

    assert set(near.values()) <= {1}
    assert len(near) == sum(size * (size - 1) // 2 for size in sizes)
    assert len(far) == len(sizes) * (len(sizes) - 1) // 2
    assert all(1 <= count <= pairs for count in far.values())


@pytest.mark.parametrize("sizes", [(9, 1, 1), (2, 1, 1, 1, 1, 1), (5,), (1, 1), (40, 3)])
def test_every_pair_has_its_turn_within_the_round(sizes: tuple[int, ...]):
    """For any plan, also if one of the two rings is empty or much longer."""
    peers, pace = cluster(*sizes), ProbePace(20, 10)
    for one in peers:
        plan = plan_for(one, peers, 2)
        spacing_s = plan.spacing_s(pace)
        turns = round(plan.round_s(pace) / spacing_s)
        for start in (0, 1, 17, first_turn(one.node, plan)):
            seen = {plan.at(turn) for turn in range(start, start + turns)}
            assert seen - {None} == {*plan.near, *plan.far}
        assert spacing_s >= 60 / 20
        assert plan.pairs * spacing_s >= 10 or not plan.pairs
    assert ProbePlan().at(3) is None


def test_a_node_more_moves_few_pairs():
    """Representatives between zones stay, except where the new node replaces one."""
    before = cluster(20, 20, 20)
    after = [*before, peer("new", "z1")]
    moved = 0
    for one in before:
        old, new = plan_for(one, before, 2), plan_for(one, after, 2)
        moved += len(set(old.far) ^ set(new.far))
        assert {other.node for other in new.near} - {other.node for other in old.near} <= {"new"}

    assert moved <= 4


def test_agents_that_start_together_are_spread():
    """The agents' times are spread over the interval, and their orders of nodes differ."""
    peers = cluster(100)
    moments = [next_moment(one.node, 1000.0, 3.0) for one in peers]
    tenths = Counter(int((moment - 1000) / 0.3) for moment in moments)
    plans = {one.node: plan_for(one, peers, 2) for one in peers}
    at_once = Counter(plan.at(first_turn(node, plan)) for node, plan in plans.items())

    assert all(1000 < moment <= 1003 for moment in moments)
    assert len(tenths) == 10
    assert max(tenths.values()) <= 20
    assert max(at_once.values()) <= 8
    assert next_moment("n", next_moment("n", 5.0, 3.0), 3.0) == pytest.approx(
        next_moment("n", 5.0, 3.0) + 3.0
    )


def reported(latencies: Latencies, now: float) -> dict[str, dict[tuple[str, ...], object]]:
    return {
        spec.name: {sample.labels: sample.value for sample in samples}
        for spec, samples in latencies.rows(now)
    }


def test_percentiles_are_reported_with_both_ends():
    """Nearest rank, node names and zones as labels, and the time."""
    latencies = Latencies("a")
    latencies.zone = "z1"
    latencies.put(peer("b", "z2"), [float(one) for one in range(100, 0, -1)], 50.0)
    found = reported(latencies, 60.0)

    assert LATENCIES[1].name == "netperf_p90_latency_microseconds"
    assert LATENCIES[1].labels[:2] == ("origin", "destination")
    assert [found[spec.name] for spec in LATENCIES] == [
        {("a", "b", "z1", "z2"): share} for share in (50.0, 90.0, 99.0)
    ]
    assert found[MEASURED.name] == {("a", "b"): 50.0}


@pytest.mark.parametrize(
    ("happens", "is_there"),
    [
        (lambda one: None, True),
        (lambda one: one.retain(["b", "c"]), True),
        (lambda one: one.retain(["c"]), False),
        (lambda one: one.fail(peer("b"), "timeout"), True),
        (lambda one: [one.fail(peer("b"), "timeout"), one.fail(peer("b"), "unreachable")], False),
        (lambda one: [one.fail(peer("b"), "busy")] * 3, True),
        (lambda one: setattr(one, "keep_s", 9.0), False),
    ],
)
def test_a_pair_that_is_no_longer_measured_ends(happens, is_there):
    """The series of a pair ends with its node, after two silent probes, or by age; a busy node does
    not count as silent.
    """
    latencies = Latencies("a")
    latencies.put(peer("b"), [1.0], 0.0)
    happens(latencies)
    found = reported(latencies, 10.0)

    assert bool(found[LATENCIES[0].name]) is bool(found[MEASURED.name]) is is_there
    assert found[PROBES.name]["ok",] == 1


def test_a_probe_that_succeeds_makes_failures_forgotten():
    """Only consecutive failures count."""
    latencies = Latencies("a")
    for _ in range(3):
        latencies.put(peer("b"), [1.0], 0.0)
        latencies.fail(peer("b"), "timeout")

    assert reported(latencies, 1.0)[LATENCIES[0].name]


def test_agents_come_from_endpoint_slices():
    """Ready ones with a node and the port's name, one per node, sorted."""
    ports = [{"name": "metrics", "port": 1}, {"name": "netperf", "port": 10261}]
    endpoints = [
        {"nodeName": "n2", "addresses": ["10.0.0.2"], "zone": "b", "conditions": {"ready": True}},
        {"nodeName": "n1", "addresses": ["10.0.0.1"]},
        {"nodeName": "n3", "addresses": ["10.0.0.3"], "conditions": {"ready": False}},
        {"nodeName": "n1", "addresses": ["10.0.0.9"]},
        {"addresses": ["10.0.0.4"]},
    ]
    body = {
        "items": [
            {"ports": ports, "endpoints": endpoints},
            {"ports": ports[:1], "endpoints": [{"nodeName": "n5", "addresses": ["10.0.0.5"]}]},
            {"ports": None, "endpoints": None},
        ]
    }
    items = msgspec.json.decode(msgspec.json.encode(body), type=SliceList).items

    assert peers_of(items) == (Peer("n1", "10.0.0.1", 10261), Peer("n2", "10.0.0.2", 10261, "b"))


def test_files_of_peers_and_links_are_strict(tmp_path: Path):
    """A wrong key is an error with the file's name; the first matching link counts, in both
    directions.
    """
    path = tmp_path / "links.yaml"
    path.write_text(
        "links:\n"
        "- {origin: n1, destination: n2, delayMicroseconds: 5}\n"
        "- {destination: n2, delayMicroseconds: 7, jitterMicroseconds: 1}\n"
    )
    links = SimulatedLinks(path, Random(0))

    found = {pair: links.between(*pair) for pair in (("n1", "n2"), ("n2", "n1"), ("n3", "n2"))}
    assert [link and link.delay_microseconds for link in found.values()] == [5, 5, 7]
    assert links.between("n1", "n3") is None
    path.write_text("links: [{delayMicroseconds: -1}]")
    os.utime(path, (1, 1))
    assert links.between("n1", "n2") == found["n1", "n2"]
    for make, text in ((PeersOfFile, "[{node: n, adress: x, port: 1}]"), (PeersOfFile, "{")):
        path.write_text(text)
        with pytest.raises(ConfigError, match=r"links\.yaml"):
            make(path)
    path.write_text("links: [{delayMicroseconds: 1, jiter: 1}]")
    with pytest.raises(ConfigError, match="jiter"):
        SimulatedLinks(path, Random(0))
