"""TLS towards an extender, as its part of the configuration asks for it.

Read once, at start. The rules are kube-scheduler's, also the odd one: `enableHTTPS` without a CA
certificate does not check the extender's certificate.
"""

from __future__ import annotations

import base64
import binascii
import ssl
import tempfile
from pathlib import Path

from scheduler.base.errors import ConfigError
from scheduler.config.model import Extender, ExtenderTLSConfig


def tls_context(extender: Extender) -> ssl.SSLContext:
    """Return the context for an extender's connections; ConfigError names what cannot be used."""
    wanted = extender.tls_config or ExtenderTLSConfig()
    try:
        return _context(extender, wanted)
    except (OSError, ssl.SSLError, ValueError, binascii.Error) as error:
        where = f"the extender {extender.url_prefix}"
        raise ConfigError(f"tlsConfig cannot be used: {error}", where=where) from error


def _context(extender: Extender, wanted: ExtenderTLSConfig) -> ssl.SSLContext:
    has_ca = bool(wanted.ca_file or wanted.ca_data)
    is_blind = wanted.insecure or (extender.enable_https and not has_ca)
    if is_blind and has_ca:
        raise ValueError(
            "specifying a root certificates file with the insecure flag is not allowed"
        )
    # Read here, because the library does not say which file it could not open.
    authorities = Path(wanted.ca_file).read_bytes() if wanted.ca_file else b""
    if wanted.ca_data:
        authorities = _decoded(wanted.ca_data)
    context = ssl.create_default_context(cadata=authorities.decode() if has_ca else None)
    if is_blind:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _present_ourselves(context, wanted)
    return context


def _present_ourselves(context: ssl.SSLContext, wanted: ExtenderTLSConfig) -> None:
    """Load our own certificate; the library reads it from files only."""
    has_certificate = bool(wanted.cert_file or wanted.cert_data)
    has_key = bool(wanted.key_file or wanted.key_data)
    if has_certificate != has_key:
        missing = "key" if has_certificate else "certificate"
        raise ValueError(f"a client {missing} is missing")
    if not has_certificate:
        return
    with tempfile.TemporaryDirectory() as folder:
        certificate = _copied(Path(folder, "certificate"), wanted.cert_file, wanted.cert_data)
        key = _copied(Path(folder, "key"), wanted.key_file, wanted.key_data)
        context.load_cert_chain(certificate, key)


def _copied(path: Path, file: str, data: str) -> Path:
    """Write what `data` carries, or else what is in `file`, where only we can read it."""
    path.touch(mode=0o600)
    path.write_bytes(_decoded(data) if data else Path(file).read_bytes())
    return path


def _decoded(data: str) -> bytes:
    return base64.b64decode(data, validate=True)
