"""Asking a running daemon, as for what it decided: by its address, or through a port-forward to its pod.

The pod is the holder of the scheduler's Lease; kubectl makes the port-forward. The daemon asks the API
server who the user is and whether they may read its debug pages.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import quote

import msgspec

from scheduler.base.clock import RealClock
from scheduler.base.errors import ApiError, InputError
from scheduler.base.meters import Meters
from scheduler.cli.about import VERSION
from scheduler.cli.flags import DaemonFlags
from scheduler.cli.live import ClusterOptions
from scheduler.kube.api import Response
from scheduler.kube.client import ApiClient
from scheduler.kube.elsewhere import client_at

LEASE = "trellis"
PORT = 10259
MOST_NODES = 10_000
NAMESPACE = "{namespace}"
_FORWARDING = re.compile(rb"Forwarding from 127\.0\.0\.1:(\d+)")


class _Meta(msgspec.Struct, frozen=True):
    namespace: str = ""


class _LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _LeaseSpec = _LeaseSpec()


class _Leases(msgspec.Struct, frozen=True):
    items: list[_Lease] = []


_leases = msgspec.json.Decoder(_Leases)


def ask(daemon: DaemonFlags, access: ClusterOptions, name: str) -> bytes:
    """Return what the daemon tells of its last decision about a pod; ApiError when it does not."""
    path = f"/debug/decisions/{NAMESPACE}/{quote(name, safe='')}?limit={MOST_NODES}"
    return told(daemon, access, path)


def told(daemon: DaemonFlags, access: ClusterOptions, path: str) -> bytes:
    """Return what the daemon answers on a path; ApiError when it does not.

    `NAMESPACE` in it stands for that of `access`, else the kubeconfig's.
    """
    ((url, answer),) = fetch(daemon, access, (path,))
    if not answer.ok:
        raise ApiError(_words(answer, url), code=answer.code, reason=answer.reason)
    return answer.body


def fetch(
    daemon: DaemonFlags, access: ClusterOptions, paths: Sequence[str], more_s: float = 0.0
) -> list[tuple[str, Response]]:
    """Return the daemon's address with its answer to each path; `more_s` is what they may take longer."""
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
    """Return why the daemon did not answer, and what to do about it."""
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
    if not pod:
        namespace, pod = await _leader(cluster, namespace, access.timeout_s)
    async with _forwarded(namespace, pod, access) as port:
        yield f"https://127.0.0.1:{port}"


async def _leader(cluster: ApiClient, namespace: str, timeout_s: float) -> tuple[str, str]:
    """Return namespace and pod of the daemon that holds the Lease; InputError without just one."""
    within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    path = f"/apis/coordination.k8s.io/v1{within}/leases?fieldSelector=metadata.name%3D{LEASE}"
    answer = await cluster.request("GET", path, timeout_s=timeout_s)
    if not answer.ok:
        text = f"cannot look for the leader: {answer.message or answer.reason}; name it: --daemon"
        raise ApiError(text, code=answer.code, reason=answer.reason)
    found = [one for one in _leases.decode(answer.body).items if one.spec.holder_identity]
    if len(found) != 1:
        count = "no daemon leads" if not found else f"{len(found)} daemons lead"
        raise InputError(f"{count} (Lease {LEASE}); name one", where="--daemon")
    # A daemon's identity begins with its host, which is the name of its pod where it runs in one.
    holder = found[0].spec.holder_identity or ""
    where, host = found[0].metadata.namespace, holder.rpartition("_")[0] or holder
    pod = f"/api/v1/namespaces/{quote(where, safe='')}/pods/{quote(host, safe='')}"
    if (await cluster.request("GET", pod, timeout_s=timeout_s)).code == 404:
        text = f'the leader runs on the host "{host}" and not in a pod'
        raise InputError(f"{text}: name its address, https://{host}:{PORT}", where="--daemon")
    return where, host


@asynccontextmanager
async def _forwarded(namespace: str, pod: str, access: ClusterOptions) -> AsyncIterator[int]:
    words = ["--namespace", namespace, "port-forward", f"pod/{pod}", f":{PORT}"]
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
