"""The daemon that leads, as its Lease describes it: host, endpoint and configuration hash.

Read by every verb that answers for the running daemon. The daemon writes the annotations with each
renewal of the Lease (`scheduler.daemon.published`).
"""

from collections.abc import Mapping
from urllib.parse import quote

import msgspec

from scheduler.base.errors import ApiError, InputError
from scheduler.kube.connection.client import ApiClient
from scheduler.kube.leaserecord import CONFIGURATION, CONFIGURATION_ERROR, DENIED, ENDPOINT, VERSION

LEASE = "trellis"


class Leader(msgspec.Struct, frozen=True):
    """The holder of the Lease `lease`; `endpoint`, `configuration` and `version` are '' where not
    published.

    `denied` names the resources that it may not list; `configuration_error` is why its
    configuration file, as it is now, is not in use, '' if it is.
    """

    namespace: str
    host: str
    endpoint: str = ""
    configuration: str = ""
    version: str = ""
    denied: tuple[str, ...] = ()
    lease: str = LEASE
    configuration_error: str = ""


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    annotations: Mapping[str, str] = {}


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


class _Leases(msgspec.Struct, frozen=True):
    items: list[_Lease] = []


_leases = msgspec.json.Decoder(_Leases)


async def leader(cluster: ApiClient, namespace: str, timeout_s: float) -> Leader:
    """Return the daemon that holds the Lease; InputError without exactly one, ApiError if
    unreadable.

    Without a Lease of the default name, one of any name (`leaderElection.resourceName`) whose
    annotations are a daemon's.
    """
    within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    path = f"/apis/coordination.k8s.io/v1{within}/leases?fieldSelector="
    found = await _leases_at(cluster, f"{path}metadata.name%3D{LEASE}", timeout_s)
    if not found:
        # Without the Leases of kubelets, one for each node.
        every = await _leases_at(
            cluster, f"{path}metadata.namespace%21%3Dkube-node-lease", timeout_s
        )
        found = [one for one in every if VERSION in one.metadata.annotations]
    if not found:
        raise InputError("no daemon leads: start one (trellis run)")
    if len(found) > 1:
        names = sorted(f"{one.metadata.namespace}/{one.metadata.name}" for one in found)
        raise InputError(f"{len(found)} daemons lead (Leases {', '.join(names[:5])})")
    # A daemon's identity begins with its host, which is the name of its pod where it runs in one.
    holder, notes = found[0].spec.holder_identity or "", found[0].metadata.annotations
    return Leader(
        found[0].metadata.namespace,
        holder.rpartition("_")[0] or holder,
        notes.get(ENDPOINT, ""),
        notes.get(CONFIGURATION, ""),
        notes.get(VERSION, ""),
        tuple(filter(None, notes.get(DENIED, "").split(","))),
        found[0].metadata.name,
        notes.get(CONFIGURATION_ERROR, ""),
    )


async def _leases_at(cluster: ApiClient, path: str, timeout_s: float) -> list[_Lease]:
    """Return the Leases with a holder."""
    answer = await cluster.request("GET", path, timeout_s=timeout_s)
    if not answer.ok:
        text = f"cannot look for the leader: {answer.message or answer.reason}; name it: --daemon"
        raise ApiError(text, code=answer.code, reason=answer.reason)
    return [one for one in _leases.decode(answer.body).items if one.spec.holder_identity]
