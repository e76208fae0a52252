"""Cluster addresses and node ports of services: assigned in order, unique while a service exists.

`defaults.py` owns one `Addresses` per store. No traffic ever reaches these addresses.
"""

import ipaddress
from typing import TYPE_CHECKING, Final

from scheduler.sandbox.api.status import Object
from scheduler.sandbox.kinds.kinds import SERVICES

if TYPE_CHECKING:
    from scheduler.sandbox.store.store import ObjectStore

_NETWORK: Final = ipaddress.ip_network("10.96.0.0/16")
_FIRST_PORT: Final = 30000
_LAST_PORT: Final = 32767


class Addresses:
    """The allocator of one cluster."""

    def __init__(self) -> None:
        self._next = 10
        self._port = _FIRST_PORT

    def assign(self, store: "ObjectStore", service: Object) -> None:
        """Assign address and ports to a new service, in place."""
        spec = service["spec"]
        if spec["type"] == "ExternalName":
            return
        if not spec.get("clusterIP"):
            spec["clusterIP"] = self._address(store)
        spec.setdefault("clusterIPs", [spec["clusterIP"]])
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        if spec["type"] in ("NodePort", "LoadBalancer"):
            for port in spec.get("ports") or ():
                if not port.get("nodePort"):
                    port["nodePort"] = self._node_port()

    @staticmethod
    def keep(new: Object, old: Object) -> None:
        """Copy the address of a service to an update that leaves it out."""
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if name in old["spec"] and not new["spec"].get(name):
                new["spec"][name] = old["spec"][name]
        known = {
            (port.get("port"), port.get("protocol")): port.get("nodePort")
            for port in old["spec"].get("ports") or ()
        }
        for port in new["spec"].get("ports") or ():
            current = known.get((port.get("port"), port.get("protocol")))
            if current and new["spec"]["type"] in ("NodePort", "LoadBalancer"):
                port.setdefault("nodePort", current)

    def _address(self, store: "ObjectStore") -> str:
        taken = {(stored.obj.get("spec") or {}).get("clusterIP") for stored in store.list(SERVICES)}
        while True:
            self._next = self._next % (_NETWORK.num_addresses - 2) + 1
            address = str(_NETWORK.network_address + self._next)
            if address not in taken:
                return address

    def _node_port(self) -> int:
        port = self._port
        self._port = _FIRST_PORT if port == _LAST_PORT else port + 1
        return port
