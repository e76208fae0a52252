"""A client that sends a request and reads nothing delays no other client, and is disconnected."""

import asyncio
import socket
import ssl
from contextlib import ExitStack

from scheduler.serve import rules
from scheduler.serve.sources import PodResources
from tests.apiserver.patience import until
from tests.unit.serve.conftest import ServerRig

MANY, SLOW = 20_000, 3
ASK = "GET {} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer good\r\n\r\n"


def ask_and_read_nothing(port: int, trust: ssl.SSLContext, path: str) -> socket.socket:
    """Return a connection with a sent request for a page and the smallest receive buffer."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.connect(("127.0.0.1", port))
    reader = trust.wrap_socket(plain, server_hostname="127.0.0.1")
    reader.sendall(ASK.format(path).encode())
    return reader


async def test_slow_readers_of_large_pages_never_matter(rig: ServerRig, monkeypatch):
    """Some clients request a page of megabytes and read none of it: they are disconnected, and
    their places are free again.

    Other requests are served all the while.
    """
    monkeypatch.setattr(rules, "SLOWEST_READER_S", 1.0)
    one = PodResources("default", "a" * 200, "n1", "trellis", "0", {"cpu": 0.25}, {"cpu": 1})
    ended = rig.meters.endpoint_requests.labels("/metrics/resources", "aborted")
    with ExitStack() as stack:
        async with rig.serving(pod_resources=lambda: iter([one] * MANY)) as visitor:
            visitor.token = "good"
            port, trust = int(visitor.url.rpartition(":")[2]), rig.authority.trust()
            for _ in range(SLOW):
                reader = await asyncio.to_thread(
                    ask_and_read_nothing, port, trust, "/metrics/resources"
                )
                stack.enter_context(reader)
            assert 200 == (await visitor.get("/healthz"))[0]
            assert 200 == (await visitor.get("/metrics"))[0]
            await until(lambda: ended.value == SLOW, "the slow ones to be cut off", 30)
