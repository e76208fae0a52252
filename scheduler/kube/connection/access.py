"""`Access`: address of the API server and our identity, as a connection needs them.

A credential source returns an `AccessProof` (text and PEM); here it becomes an `Access`, with a TLS
context that is reused while the certificates stay the same. No request is made here.
"""

import ipaddress
import ssl
import urllib.request
from typing import NamedTuple
from urllib.parse import urlsplit

from scheduler.kube.connection.tls import client_context


class Access:
    """Everything a connection needs: address, TLS, and the value of the Authorization header."""

    __slots__ = ("authorization", "namespace", "proxy", "server", "server_hostname", "tls")

    def __init__(
        self,
        server: str,
        *,
        tls: ssl.SSLContext | None = None,
        authorization: str = "",
        server_hostname: str | None = None,
        proxy: str | None = None,
        is_direct: bool = False,
        namespace: str = "",
    ) -> None:
        self.server = server.rstrip("/")
        self.tls = tls
        self.authorization = authorization
        self.server_hostname = server_hostname
        self.proxy = None if is_direct else proxy or proxy_of(self.server)
        self.namespace = namespace


class AccessProof(NamedTuple):
    """The result of a credential source; `authorities`, `certificate` and `key` are PEM, b""
    without.

    `is_direct`: no proxy is used, whatever the environment variables are.
    """

    server: str
    authorization: str = ""
    authorities: bytes = b""
    certificate: bytes = b""
    key: bytes = b""
    is_blind: bool = False
    server_hostname: str | None = None
    proxy: str | None = None
    namespace: str = ""
    is_direct: bool = False


class Accesses:
    """Creates accesses; the TLS context is reused while the certificates are the same."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._tls: ssl.SSLContext | None = None

    def make(self, proof: AccessProof) -> Access:
        """Return the access that `proof` opens; OSError or ValueError for certificates that
        fail.
        """
        return Access(
            proof.server,
            tls=self._context(proof) if proof.server.startswith("https") else None,
            # A token file usually ends in a line end, which must not reach the header.
            authorization=proof.authorization.strip(),
            server_hostname=proof.server_hostname,
            proxy=proof.proxy,
            is_direct=proof.is_direct,
            namespace=proof.namespace,
        )

    def _context(self, proof: AccessProof) -> ssl.SSLContext:
        key = (proof.authorities, proof.certificate, proof.key, proof.is_blind)
        if self._tls is None or self._key != key:
            self._tls = client_context(*key[:3], is_blind=proof.is_blind)
            self._key = key
        return self._tls


def proxy_of(server: str) -> str | None:
    """Return the proxy for a URL by the environment, None for a direct connection.

    HTTPS_PROXY, HTTP_PROXY and NO_PROXY have the meaning of Go (golang.org/x/net/http/httpproxy),
    as in kubectl: loopback addresses never use a proxy, and NO_PROXY lists hosts, domains,
    addresses and networks. Python's standard library supports neither.
    """
    parts = urlsplit(server)
    proxies = urllib.request.getproxies_environment()
    if not parts.hostname or parts.scheme not in proxies:
        return None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return (
        None if _is_direct(parts.hostname, port, proxies.get("no", "")) else proxies[parts.scheme]
    )


def _is_direct(host: str, port: int, no_proxy: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    host = host.lower().rstrip(".")
    entries = (entry.strip().lower() for entry in no_proxy.split(","))
    return any(_covers(entry, host, address, port) for entry in entries if entry)


def _covers(entry: str, host: str, address: "_Address | None", port: int) -> bool:
    """Return whether an entry of NO_PROXY covers a host: `*`, a network, an address, a domain."""
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return address is not None and address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    name, wanted_port = _split(entry)
    if wanted_port not in ("", str(port)):
        return False
    known = _address(name)
    if known is not None or address is not None:
        return known is not None and known == address
    domain = name.removeprefix("*")
    if domain.startswith("."):
        return host.endswith(domain)
    return host == domain or host.endswith("." + domain)


def _split(entry: str) -> tuple[str, str]:
    """Return an entry's host and port; an IPv6 address without brackets has no port."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _address(text: str) -> _Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
