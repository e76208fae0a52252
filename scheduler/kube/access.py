"""`Access`: all that a connection needs of where the API server is and who we are.

What a source of credentials has found (`Proof`: text and PEM) becomes an `Access` here, with a TLS
context that lives as long as what it was made of stays the same. No request is made here.
"""

import ssl
from typing import NamedTuple

from scheduler.kube.proxies import proxy_of
from scheduler.kube.tls import client_context


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


class Proof(NamedTuple):
    """What a source has found; `authorities`, `certificate` and `key` are PEM, b"" without.

    `is_direct` says that no proxy stands before the server, whatever the environment says.
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
    """Makes accesses; as long as the certificates are the same, the TLS context is too."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._tls: ssl.SSLContext | None = None

    def make(self, proof: Proof) -> Access:
        """Return the access that `proof` opens; OSError or ValueError for certificates that fail."""
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

    def _context(self, proof: Proof) -> ssl.SSLContext:
        key = (proof.authorities, proof.certificate, proof.key, proof.is_blind)
        if self._tls is None or self._key != key:
            self._tls = client_context(*key[:3], is_blind=proof.is_blind)
            self._key = key
        return self._tls
