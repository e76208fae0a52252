"""A client for a daemon's own endpoints, with a cluster user's credentials.

`explain --past` uses it. The token is sent only to a server with a verified certificate, or over
loopback: there a port-forward ends, and the API server has authenticated its peer.
"""

import ipaddress
import ssl
from urllib.parse import urlsplit

from scheduler.base.clock import Clock
from scheduler.base.errors import ConfigError
from scheduler.base.meters import Meters
from scheduler.kube.connection.access import Access
from scheduler.kube.connection.client import ApiClient
from scheduler.kube.connection.credentials import Credentials


class _Fixed:
    """Credentials that are not refreshed: a request is shorter than their lifetime."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def load(self, *, force: bool) -> Access:
        del force
        return self._access


def client_at(
    url: str,
    authorization: str,
    *,
    authority: str = "",
    clock: Clock,
    meters: Meters,
    user_agent: str,
) -> ApiClient:
    """Return a client of the daemon at `url`; ConfigError for an address to which no token may be
    sent.

    `authority` is a file of certificates to trust; without one those of the system.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise ConfigError("expected the https:// address of a daemon", where=url)
    try:
        tls = ssl.create_default_context(cafile=authority or None)
    except OSError as error:
        text = error.strerror or "not a file of certificates"
        raise ConfigError(f"cannot be read: {text}", where=authority) from error
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not authority and is_loopback(parts.hostname):
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    access = Access(url, tls=tls, authorization=authorization)
    credentials = Credentials(_Fixed(access), clock, access)
    return ApiClient(credentials, clock=clock, meters=meters, user_agent=user_agent)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by its address or as `localhost`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
