"""The addresses of the other agents: from the EndpointSlices of the agents' Service, or from a
file.

EndpointSlices have node, zone and address of every ready agent in a few hundred bytes each. They
are in the agents' own namespace, so no right to read nodes or pods is needed. A list of 5,000
agents is about 1.5 MB, served from the API server's cache.
"""

from pathlib import Path
from typing import Protocol

import msgspec
import yaml

from operators.api import Api
from scheduler.base.errors import ConfigError, TrellisError
from scheduler.objects.meta import Object

PORT_NAME = "netperf"


class PeersError(TrellisError):
    """The API server's response is invalid."""


class Peer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent: its node, the node's zone ("" if it has none), and where it listens."""

    node: str
    address: str
    port: int
    zone: str = ""


class Peers(Protocol):
    """A source of the agents' addresses."""

    async def find(self) -> tuple[Peer, ...]:
        """Return the peers in the file."""


class PeersOfService:
    """The agents behind a Service."""

    def __init__(self, api: Api, namespace: str, service: str) -> None:
        self._api = api
        self._path = (
            f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
            f"?labelSelector=kubernetes.io%2Fservice-name%3D{service}&resourceVersion=0"
        )

    async def find(self) -> tuple[Peer, ...]:
        """List the agents from the API server."""
        body = await self._api.send("GET", self._path)
        try:
            return peers_of(msgspec.json.decode(body, type=SliceList).items)
        except msgspec.MsgspecError as error:
            raise PeersError(f"the EndpointSlices cannot be read: {error}") from error


class PeersOfFile:
    """The agents in a YAML file; ConfigError if it is invalid."""

    def __init__(self, path: Path) -> None:
        try:
            document = yaml.safe_load(path.read_text())
            self._peers = msgspec.convert(document, tuple[Peer, ...])
        except OSError as error:
            raise ConfigError(str(error.strerror), where=str(path)) from error
        except (yaml.YAMLError, msgspec.ValidationError) as error:
            raise ConfigError(str(error), where=str(path)) from error

    async def find(self) -> tuple[Peer, ...]:
        """Return the peers that the file lists."""
        return self._peers


class _Port(Object, frozen=True):
    name: str | None = None
    port: int | None = None


class _Conditions(Object, frozen=True):
    ready: bool | None = None


class _Endpoint(Object, frozen=True):
    addresses: tuple[str, ...] = ()
    conditions: _Conditions = _Conditions()
    node_name: str | None = None
    zone: str | None = None


class EndpointSlice(Object, frozen=True):
    """A part of a Service's endpoints."""

    endpoints: tuple[_Endpoint, ...] | None = None
    ports: tuple[_Port, ...] | None = None


class SliceList(Object, frozen=True):
    """A list of EndpointSlices."""

    items: tuple[EndpointSlice, ...] = ()


def peers_of(slices: tuple[EndpointSlice, ...]) -> tuple[Peer, ...]:
    """Return the ready agents, one per node (the first address that is listed), by name."""
    found: dict[str, Peer] = {}
    for one in slices:
        port = next((p.port for p in one.ports or () if p.name == PORT_NAME and p.port), None)
        for endpoint in one.endpoints or () if port is not None else ():
            node = endpoint.node_name
            # A missing readiness means ready.
            if node and endpoint.addresses and endpoint.conditions.ready is not False:
                peer = Peer(node, endpoint.addresses[0], port or 0, endpoint.zone or "")
                found.setdefault(node, peer)
    return tuple(found[node] for node in sorted(found))
