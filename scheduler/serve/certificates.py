"""The serving certificate: from files that may be replaced at run time, or created in memory.

`app.py` takes the TLS context from here and calls `refresh` regularly. New connections get the new
certificate, open ones keep theirs. A pair of files that cannot be used (half written, key of
another certificate) leaves the last good one in place. No key is ever written to a disk.
"""

import asyncio
import contextlib
import hashlib
import ipaddress
import os
import ssl
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from scheduler.base.clock import Clock
from scheduler.base.errors import InputError
from scheduler.base.meters import Meters

SELF_SIGNED_DAYS = 365
_RENEW_BEFORE_S = 30 * 86400.0

_log = structlog.get_logger()


class Pair(NamedTuple):
    """A certificate chain and its private key, both PEM."""

    certificate: bytes
    key: bytes

    def digest(self) -> bytes:
        """Return a value that differs when the pair differs."""
        return hashlib.sha256(self.certificate + b"\0" + self.key).digest()


class _Staged(NamedTuple):
    """A pair at paths that ssl can load, until `files` is closed."""

    pair: Pair
    certificate: str
    key: str
    files: contextlib.ExitStack


class Files(NamedTuple):
    """The certificate's files; `client_ca` (PEM) signs accepted client certificates."""

    certificate: str = ""
    key: str = ""
    client_ca: str = ""


class ServingCertificate:
    """A TLS context whose certificate follows its files."""

    def __init__(self, files: Files, hosts: Sequence[str], clock: Clock, meters: Meters) -> None:
        self._files = files
        self._hosts = hosts
        self._clock = clock
        self._meters = meters
        self._digest = b""
        self.context = _server_context()

    async def load(self) -> None:
        """Take the certificate into use for the first time; raises InputError when unusable."""
        if bool(self._files.certificate) != bool(self._files.key):
            raise InputError("a certificate file and a key file are needed together")
        try:
            if self._files.client_ca:
                authorities = await asyncio.to_thread(_read, self._files.client_ca)
                self.trust_clients(authorities.decode())
            self._use(await asyncio.to_thread(self._stage))
        except (OSError, ValueError) as error:
            where = self._files.certificate or self._files.client_ca
            raise InputError(f"cannot serve TLS: {error}", where=where) from error

    def trust_clients(self, authorities: str) -> None:
        """Accept client certificates signed by these too (PEM); new connections only."""
        self.context.load_verify_locations(cadata=authorities)
        self.context.verify_mode = ssl.CERT_OPTIONAL

    async def refresh(self) -> bool:
        """Load changed files, or renew the self-signed certificate; return whether it changed."""
        if not self._files.certificate:
            ends_in_s = self._meters.certificate_expiry.value - self._clock.now()
            if ends_in_s > _RENEW_BEFORE_S:
                return False
        try:
            staged = await asyncio.to_thread(self._stage)
            if not self._use(staged):
                return False
        except (OSError, ValueError) as error:
            self._meters.certificate_reloads.labels("error").inc()
            _log.error(
                "serving certificate not reloaded, the last good one stays", error=str(error)
            )
            return False
        self._meters.certificate_reloads.labels("success").inc()
        _log.info("serving certificate reloaded", file=self._files.certificate or "(in memory)")
        return True

    def _stage(self) -> _Staged:
        if self._files.certificate:
            pair = Pair(_read(self._files.certificate), _read(self._files.key))
        else:
            pair = self_signed(self._hosts, self._clock.now())
        files = contextlib.ExitStack()
        try:
            certificate, key = _memory_file(files, pair[0]), _memory_file(files, pair[1])
            # A context keeps the certificate if the key is refused: try the pair on another
            # context. An empty password makes an encrypted key fail; without one, ssl asks at the
            # terminal.
            _server_context().load_cert_chain(certificate, key, password="")
        except BaseException:  # the files are memory that only a close frees
            files.close()
            raise
        return _Staged(pair, certificate, key, files)

    def _use(self, staged: _Staged) -> bool:
        with staged.files:
            digest = staged.pair.digest()
            if digest == self._digest:
                return False
            leaf = x509.load_pem_x509_certificate(staged.pair.certificate)
            self.context.load_cert_chain(staged.certificate, staged.key, password="")
        self._digest = digest
        self._meters.certificate_expiry.set(leaf.not_valid_after_utc.timestamp())
        return True


def self_signed(hosts: Sequence[str], now: float) -> Pair:
    """Make a certificate for these names and addresses, valid a year from `now` (epoch s)."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"trellis@{int(now)}")])
    begin = datetime.fromtimestamp(int(now), UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - timedelta(hours=1))  # clocks differ a little
        .not_valid_after(begin + timedelta(days=SELF_SIGNED_DAYS))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_san(h) for h in hosts]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def _san(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _read(path: str) -> bytes:
    return Path(path).read_bytes()


def _memory_file(files: contextlib.ExitStack, content: bytes) -> str:
    # The standard library loads a key from a path only; on Linux this path leads to memory.
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("trellis-tls", os.MFD_CLOEXEC)
        files.callback(os.close, descriptor)
        os.write(descriptor, content)
        return f"/proc/self/fd/{descriptor}"
    file = tempfile.NamedTemporaryFile()  # noqa: SIM115 - for our eyes only, `files` removes it
    files.enter_context(file)
    file.write(content)
    file.flush()
    return file.name
