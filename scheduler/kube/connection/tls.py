"""TLS contexts of our own connections, made from PEM that is in memory already.

Used for the API server and for extenders. No file is read here; callers add the file's name to an
error.
"""

import ssl
import tempfile
from asyncio.sslproto import SSLProtocol
from pathlib import Path

# asyncio allocates and zeroes a buffer of this size for each connection, and the same again at each
# read. Its own 256 KiB took 34 MiB of a daemon's 232 with 128 binds in flight, whose answers have
# some hundred bytes; a TLS record has at most 16 KiB.
SSLProtocol.max_size = 64 * 1024


def client_context(
    authorities: bytes = b"", certificate: bytes = b"", key: bytes = b"", *, is_blind: bool = False
) -> ssl.SSLContext:
    """Return a context that trusts `authorities` (b"": the system's) and presents a certificate.

    `is_blind`: the certificate of the server is not verified. Raises OSError or ValueError.
    """
    # Text between the certificates may be in any language; the certificates are ASCII.
    text = authorities.decode("ascii", "ignore")
    context = ssl.create_default_context(cadata=text or None)
    # Python 3.13 requires extensions that many clusters' own authorities lack.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if is_blind:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if bool(certificate) != bool(key):
        raise ValueError(f"a client {'key' if certificate else 'certificate'} is missing")
    if certificate:
        _present(context, certificate, key)
    return context


def _present(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load our own certificate; the library reads it from files only."""
    with tempfile.TemporaryDirectory() as folder:
        paths = Path(folder, "certificate"), Path(folder, "key")
        for path, content in zip(paths, (certificate, key), strict=True):
            path.touch(mode=0o600)
            path.write_bytes(content)
        # An empty password makes an encrypted key fail; without one, ssl asks at the terminal.
        context.load_cert_chain(*paths, password="")
