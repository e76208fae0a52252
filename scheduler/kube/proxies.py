"""Which proxy the environment names for a server: HTTPS_PROXY, HTTP_PROXY and NO_PROXY, as Go reads them.

kubectl and every other Kubernetes client read them so (golang.org/x/net/http/httpproxy): this machine is
never reached through a proxy, and NO_PROXY holds hosts, domains, addresses and networks. Python's own
reading knows neither. No connection is made here.
"""

import ipaddress
import urllib.request
from urllib.parse import urlsplit


def proxy_of(server: str) -> str | None:
    """Return the proxy for a URL, None when it is reached directly."""
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
    """Whether an entry of NO_PROXY stands for a host: `*`, a network, an address, a domain."""
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
