"""Host ports in use on each node, by protocol and number."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from scheduler.base.arrays import BoolColumn
from scheduler.objects.pod import ContainerPort

ANY_IP = "0.0.0.0"  # noqa: S104 - compared with, never bound to

_Port = tuple[str, int]


def ip_of(port: ContainerPort) -> str:
    """Return the host IP of a port; no IP means all."""
    return port.host_ip or ANY_IP


def ports_conflict(first: ContainerPort, second: ContainerPort) -> bool:
    """Return whether two host ports cannot be on one node (`::` is not special, as in
    kube-scheduler).
    """
    return (first.protocol or "TCP", first.host_port) == (
        second.protocol or "TCP",
        second.host_port,
    ) and (ip_of(first) == ip_of(second) or ANY_IP in (ip_of(first), ip_of(second)))


class HostPorts:
    """(protocol, port) → row → how often each IP holds it; written by `NodeTable` alone."""

    def __init__(self) -> None:
        self._used: dict[_Port, dict[int, Counter[str]]] = {}

    def hold(self, row: int, ports: Iterable[ContainerPort]) -> None:
        """Count the ports of a pod that is added to `row`."""
        for port in ports:
            rows = self._used.setdefault((port.protocol or "TCP", port.host_port), {})
            rows.setdefault(row, Counter())[ip_of(port)] += 1

    def release(self, row: int, ports: Iterable[ContainerPort]) -> None:
        """Undo the counting by `hold`."""
        for port in ports:
            key = (port.protocol or "TCP", port.host_port)
            conflicting = self._used[key][row]
            conflicting[ip_of(port)] -= 1
            if not conflicting[ip_of(port)]:
                del conflicting[ip_of(port)]
            if not conflicting:
                del self._used[key][row]
                if not self._used[key]:
                    del self._used[key]

    def conflicting(self, row: int, port: ContainerPort) -> int:
        """Return the number of ports in use on `row` that conflict with `port`."""
        ips = self._used.get((port.protocol or "TCP", port.host_port), {}).get(row)
        if not ips:
            return 0
        wanted = ip_of(port)
        return sum(n for ip, n in ips.items() if wanted == ANY_IP or ip in (wanted, ANY_IP))

    def conflicts(self, ports: Iterable[ContainerPort], rows: int) -> BoolColumn:
        """Return the rows (of `rows` in all) on which any of `ports` is taken."""
        mask = np.zeros(rows, dtype=np.bool_)
        for port in ports:
            for row in self._used.get((port.protocol or "TCP", port.host_port), ()):
                if self.conflicting(row, port):
                    mask[row] = True
        return mask
