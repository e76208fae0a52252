"""Requests to a running daemon, for example about past decisions: by its address, or through a
port-forward to its pod.

The pod is the holder of the scheduler's Lease; kubectl makes the port-forward. The daemon
authenticates the user and checks the right to read its debug pages with the API server.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from socket import gethostname
from urllib.parse import quote, urlsplit

from scheduler.about import VERSION
from scheduler.base.clock import RealClock
from scheduler.base.errors import ApiError, InputError
from scheduler.base.meters import Meters
from scheduler.cli.flags import DaemonFlags
from scheduler.cli.inputs.access import ClusterOptions
from scheduler.cli.inputs.leader import Leader, leader
from scheduler.kube.api import Response
from scheduler.kube.connection.client import ApiClient
from scheduler.kube.connection.elsewhere import client_at, is_loopback

PORT = 10259
MOST_NODES = 10_000
NAMESPACE = "{namespace}"
_FORWARDING = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d+)")


def fetch_decision(daemon: DaemonFlags, access: ClusterOptions, name: str) -> bytes:
    """Return the daemon's last decision about a pod; ApiError if it has none."""
    path = f"/debug/decisions/{NAMESPACE}/{quote(name, safe='')}?limit={MOST_NODES}"
    return request(daemon, access, path)


def request(daemon: DaemonFlags, access: ClusterOptions, path: str) -> bytes:
    """Return the daemon's answer on a path; ApiError on failure.

    `NAMESPACE` in the path is replaced by that of `access`, else the kubeconfig's.
    """
    ((url, answer),) = fetch(daemon, access, (path,))
    if not answer.ok:
        raise ApiError(_words(answer, url), code=answer.code, reason=answer.reason)
    return answer.body


def fetch(
    daemon: DaemonFlags, access: ClusterOptions, paths: Sequence[str], more_s: float = 0.0
) -> list[tuple[str, Response]]:
    """Return the daemon's address and its response to each path; `more_s` extends the timeout."""
    return asyncio.run(_fetch(daemon, access, paths, access.timeout_s + more_s))


async def _fetch(
    daemon: DaemonFlags, access: ClusterOptions, paths: Sequence[str], timeout_s: float
) -> list[tuple[str, Response]]:
    clock, meters = RealClock(), Meters()
    agent = f"trellis/{VERSION}"
    cluster = await ApiClient.connect(
        access.kubeconfig, access.context, clock=clock, meters=meters, user_agent=agent
    )
    try:
        token = cluster.credentials.access.authorization
        namespace = quote(access.namespace or cluster.namespace or "default", safe="")
        async with _reached(daemon.daemon, access, cluster) as url:
            client = client_at(
                url,
                f"Bearer {daemon.token}" if daemon.token else token,
                authority=daemon.authority,
                clock=clock,
                meters=meters,
                user_agent=agent,
            )
            try:
                wanted = [path.replace(NAMESPACE, namespace) for path in paths]
                return [
                    (url, await client.request("GET", path, timeout_s=timeout_s)) for path in wanted
                ]
            finally:
                await client.close()
    finally:
        await cluster.close()


def _words(answer: Response, url: str) -> str:
    """Return why the daemon did not respond, and what the user can do."""
    text = f"the daemon at {url} says: {answer.message or answer.reason or 'nothing'}"
    if answer.code in (401, 403):
        text += "; --token takes one that may get /debug/*, as kubectl create token makes"
    return text


@asynccontextmanager
async def _reached(where: str, access: ClusterOptions, cluster: ApiClient) -> AsyncIterator[str]:
    """Yield the address of the daemon, forwarded while the block lasts if it is a pod."""
    if "://" in where:
        yield where.rstrip("/")
        return
    namespace, _, pod = where.partition("/")
    remote = PORT
    if not pod:
        try:
            found = await leader(cluster, namespace, access.timeout_s)
        except InputError as error:
            raise InputError(f"{error}; --daemon names one") from error
        if not await _is_pod(cluster, found, access.timeout_s):
            yield _local(found)
            return
        namespace, pod = found.namespace, found.host
        remote = urlsplit(found.endpoint).port or PORT
    async with _forwarded(namespace, pod, remote, access) as port:
        yield f"https://127.0.0.1:{port}"


async def _is_pod(cluster: ApiClient, found: Leader, timeout_s: float) -> bool:
    namespace, name = (quote(text, safe="") for text in (found.namespace, found.host))
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    return (await cluster.request("GET", path, timeout_s=timeout_s)).code != 404


def _local(found: Leader) -> str:
    """Return the address of a leader that does not run in a pod; InputError if it is unreachable
    from here.
    """
    lead = f'the leader runs on the host "{found.host}" and not in a pod'
    if not found.endpoint:
        text = f"{lead}, and serves no endpoint: run it without --secure-port 0"
        raise InputError(text, where="--daemon")
    if is_loopback(urlsplit(found.endpoint).hostname or "") and found.host != gethostname():
        text = f"{lead}: name an address of that host with the port of {found.endpoint}"
        raise InputError(text, where="--daemon")
    return found.endpoint


@asynccontextmanager
async def _forwarded(
    namespace: str, pod: str, remote: int, access: ClusterOptions
) -> AsyncIterator[int]:
    words = ["--namespace", namespace, "port-forward", f"pod/{pod}", f":{remote}"]
    for flag, value in (("--kubeconfig", access.kubeconfig), ("--context", access.context)):
        words += [flag, value] if value else []
    pipe = asyncio.subprocess.PIPE
    try:
        kubectl = await asyncio.create_subprocess_exec("kubectl", *words, stdout=pipe, stderr=pipe)
    except OSError as error:
        text = "a port-forward needs kubectl; or name the daemon's address"
        raise InputError(text, where="--daemon") from error
    try:
        yield await _port(kubectl, f"{namespace}/{pod}", access.timeout_s)
    finally:
        if kubectl.returncode is None:
            kubectl.terminate()
        await kubectl.wait()


async def _port(kubectl: asyncio.subprocess.Process, where: str, timeout_s: float) -> int:
    """Return the local port once kubectl listens on it."""
    if kubectl.stdout is None or kubectl.stderr is None:
        raise InputError("kubectl cannot be read", where=where)
    try:
        line = await asyncio.wait_for(kubectl.stdout.readline(), timeout_s)
    except TimeoutError:
        text = f"no port-forward to {where} in {timeout_s:g} s"
        raise InputError(text, where="--daemon") from None
    found = _FORWARDING.search(line)
    if found is None:
        words = (await kubectl.stderr.read()).decode(errors="replace").strip().replace("\n", "; ")
        raise InputError(f"no port-forward to {where}: {words or 'kubectl has ended'}")
    return int(found[1])
