"""Responses are parsed completely and correctly, however the bytes are divided into packets."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.kube.connection.http1 import AnswerReader, HttpAnswer, HttpProtocolError, header

BODY = b'{"kind":"Status","code":201}'
PLAIN = b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)
CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"5;name=x\r\n{'a':\r\n3\r\n\r\n1\r\n1\r\n}\r\n0\r\nTrailer: t\r\n\r\n"
)
ANSWERS = {
    "with a length": (PLAIN, 201, BODY),
    "in chunks": (CHUNKED, 200, b"{'a':\r\n1}"),
    "empty": (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b""),
    "without a body": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    "after a hint": (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + PLAIN, 201, BODY),
}


def feed(pieces: list[bytes]) -> list[HttpAnswer]:
    reader = AnswerReader()
    return [answer for piece in pieces if piece and (answer := reader.feed(piece)) is not None]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@given(st.sampled_from(sorted(ANSWERS)), st.lists(st.integers(0, 1000), max_size=20))
def test_an_answer_is_the_same_however_it_is_cut(name: str, places: list[int]):
    """The split of the bytes over packets makes no difference."""
    data, code, body = ANSWERS[name]

    answers = feed(cut(data, places))

    assert [(code, body)] == [(answer.code, answer.body) for answer in answers]
    assert not answers[0].closes


@pytest.mark.parametrize("size", [5, 300_000])
def test_every_end_of_the_first_packet_is_possible(size: int):
    """A chunked response may be divided at any byte, also if its first chunk is larger than the
    limit of a head.
    """
    chunk = b"%x\r\n%s\r\n" % (size, b"a" * size)
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk * 2 + b"0\r\n\r\n"
    for end in {len(data) - back for back in range(1, 8)} | {len(data) // 2, len(data) // 2 - 9}:
        (answer,) = feed([data[:end], data[end:]])
        assert b"a" * 2 * size == answer.body


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_nonsense_is_refused_and_nothing_else(data: bytes, places: list[int]):
    """Any bytes give responses or a ProtocolError, never another exception."""
    with suppress(HttpProtocolError):
        feed(cut(b"HTTP/1.1 200 OK\r\n" + data, places))


def test_a_body_may_end_with_the_connection():
    """Without a length or chunks the end of the connection is the end of the body."""
    reader = AnswerReader()

    assert reader.feed(b"HTTP/1.1 503 Busy\r\n\r\nover") is None
    assert reader.feed(b"loaded") is None
    answer = reader.end()

    assert answer is not None
    assert (503, b"overloaded", True) == (answer.code, answer.body, answer.closes)


def test_a_cut_answer_is_none():
    """If the connection ends within a response, there is no response."""
    reader = AnswerReader()

    assert reader.feed(PLAIN[:-1]) is None
    assert reader.end() is None


@pytest.mark.parametrize(
    "data",
    [
        PLAIN.replace(b"201 Created\r\n", b"201 Created\r\nConnection: close\r\n"),
        PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"),
        PLAIN + b"more",
    ],
)
def test_a_connection_that_is_used_up_says_so(data: bytes):
    """After `close`, under HTTP/1.0, and after unexpected bytes the connection is not reused."""
    assert [True] == [answer.closes for answer in feed([data])]


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 20x OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 60_000,
    ],
)
def test_what_is_no_answer_raises(data: bytes):
    """Another protocol, an impossible length and a head without end raise ProtocolError."""
    with pytest.raises(HttpProtocolError):
        feed([data])


def test_headers_are_found_whatever_their_case():
    """Header names are looked up in lower case; a missing one is None."""
    (answer,) = feed([PLAIN.replace(b"\r\n\r\n", b"\r\nReTry-AFTER:  7 \r\n\r\n", 1)])

    assert b"7" == header(answer.head, b"retry-after")
    assert header(answer.head, b"etag") is None
