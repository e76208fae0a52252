"""TLS towards an extender, as its part of the configuration asks for it.

Read once, at start. The rules are kube-scheduler's, also the odd one: `enableHTTPS` without a CA
certificate does not check the extender's certificate.
"""

import base64
import binascii
import ssl
from pathlib import Path

from scheduler.base.errors import ConfigError
from scheduler.config.model import Extender, ExtenderTLSConfig
from scheduler.kube.tls import client_context


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
    return client_context(
        _content(wanted.ca_data, wanted.ca_file),
        _content(wanted.cert_data, wanted.cert_file),
        _content(wanted.key_data, wanted.key_file),
        is_blind=is_blind,
    )


def _content(data: str, file: str) -> bytes:
    """Return what `data` carries, or else what is in `file`; b"" without either."""
    if data:
        return base64.b64decode(data, validate=True)
    return Path(file).read_bytes() if file else b""
