"""TLS contexts of our own connections, made from PEM that is in memory already.

Used for the API server and for extenders. Nothing is read here; callers name the file of a fault.
"""

import ssl
import tempfile
from asyncio.sslproto import SSLProtocol
from pathlib import Path

# asyncio makes a buffer of this size for each connection, fills it with zeros, and asks for as much
# memory again at each reading. Its own 256 KiB came to 34 MiB of a daemon's 232 with 128 binds
# under way, whose answers have some hundred bytes; a record of TLS has 16 KiB at most.
SSLProtocol.max_size = 64 * 1024


def client_context(
    authorities: bytes = b"", certificate: bytes = b"", key: bytes = b"", *, is_blind: bool = False
) -> ssl.SSLContext:
    """Return a context that trusts `authorities` (b"": the system's) and presents a certificate.

    `is_blind`: the certificate of the server is not verified. Raises OSError or ValueError.
    """
    # What stands between the certificates may be in any language; they themselves are ASCII.
    text = authorities.decode("ascii", "ignore")
    context = ssl.create_default_context(cadata=text or None)
    # Python 3.13 asks for extensions that many clusters' own authorities do not have.
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
