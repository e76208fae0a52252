"""Addresses, networks and URLs, read as strictly as Go reads them."""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import (
    AddressValueError,
    IPv4Address,
    IPv6Address,
    NetmaskValueError,
    ip_address,
    ip_network,
)
from typing import Any
from urllib.parse import unquote_plus

from scheduler.cel.checking import types
from scheduler.cel.evaluation.gotext import quoted
from scheduler.cel.evaluation.values import NO_OVERLOAD, EvaluationFault, Opaque
from scheduler.cel.library import Library

Address = IPv4Address | IPv6Address

_LONGEST = 4096
_BITS = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.\-]*):")
_PORT = re.compile(r":[0-9]*|")
_ESCAPED = re.compile("%(?![0-9a-fA-F]{2})")


class _MalformedError(ValueError):
    """A text that is no address, network or URL; the message is upstream's."""


def _address(text: str) -> Address:
    try:
        address = ip_address(text)
    except ValueError:
        raise _MalformedError(
            f"IP Address {quoted(text)} parse error during conversion from string: "
            f"ParseAddr({quoted(text)}): unable to parse IP"
        ) from None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise _MalformedError(f"IP address {quoted(text)} with zone value is not allowed")
        if address.ipv4_mapped is not None:
            raise _MalformedError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return address


def _network(text: str) -> tuple[Address, int]:
    host, slash, bits = text.rpartition("/")
    reason = "no '/'"
    if slash:
        reason = f"bad bits after slash: {quoted(bits)}"
        try:
            address = ip_address(host)
        except (AddressValueError, NetmaskValueError, ValueError):
            address = None
            reason = f"ParseAddr({quoted(host)}): unable to parse IP"
        if (
            address is not None
            and isinstance(address, IPv6Address)
            and address.scope_id is not None
        ):
            address = None
            reason = "IPv6 zones cannot be present in a prefix"
        if address is not None and _BITS.fullmatch(bits):
            reason = "prefix length out of range"
            if int(bits) <= address.max_prefixlen:
                if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
                    raise _MalformedError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
                return address, int(bits)
    raise _MalformedError(
        "network address parse error during conversion from string: "
        f"netip.ParsePrefix({quoted(text)}): {reason}"
    )


def _ip_value(address: Address) -> Opaque:
    return Opaque(types.IP, address, address.max_prefixlen // 8)


def _ip(text: str) -> Any:
    try:
        return _ip_value(_address(text))
    except _MalformedError as error:
        return EvaluationFault(str(error))


def _cidr_value(address: Address, bits: int) -> Opaque:
    return Opaque(types.CIDR, (address, bits), (bits + 7) // 8)


def _cidr(text: str) -> Any:
    try:
        return _cidr_value(*_network(text))
    except _MalformedError as error:
        return EvaluationFault(
            f"network address parse error during conversion from string: {error}"
        )


def _is(read: Callable[[str], object]) -> Callable[[str], bool]:
    def call(text: str) -> bool:
        try:
            read(text)
        except _MalformedError:
            return False
        return True

    return call


def _is_canonical(text: str) -> Any:
    try:
        return str(_address(text)) == text
    except _MalformedError as error:
        return EvaluationFault(str(error))


def _of_address(test: Callable[[Address], bool]) -> Callable[[Opaque], bool]:
    return lambda value: test(value.value)


def _is_global(address: Address) -> bool:
    special = address.is_unspecified or address.is_loopback or address.is_multicast
    broadcast = isinstance(address, IPv4Address) and int(address) == 0xFFFFFFFF
    return not (special or broadcast or address.is_link_local)


def _is_local_multicast(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return int(address) >> 8 == 0xE00000
    return int(address) >> 112 & 0xFF0F == 0xFF02


def _inside(network: Opaque, address: Address) -> bool:
    base, bits = network.value
    shift = base.max_prefixlen - bits
    return bool(base.version == address.version and int(base) >> shift == int(address) >> shift)


def _contains_ip(network: Opaque, other: Any) -> Any:
    if type(other) is str:
        other = _ip(other)
    # Upstream does not say why a text is no address here.
    return NO_OVERLOAD if type(other) is EvaluationFault else _inside(network, other.value)


def _contains_cidr(network: Opaque, other: Any) -> Any:
    if type(other) is str:
        other = _cidr(other)
    if type(other) is EvaluationFault:
        return other
    address, bits = other.value
    return network.value[1] <= bits and _inside(network, address)


def _masked(value: Opaque) -> Opaque:
    address, bits = value.value
    return _cidr_value(ip_network((address, bits), strict=False).network_address, bits)


class _Url:
    """The parts of a URL, and its text for comparison."""

    __slots__ = ("host", "path", "query", "scheme", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        rest, _, _fragment = text.partition("#")
        match = _SCHEME.match(rest)
        self.scheme = match[1].lower() if match else ""
        rest = rest[match.end() :] if match else rest
        rest, _, self.query = rest.partition("?")
        self.host = ""
        if rest.startswith("//"):
            authority, slash, path = rest[2:].partition("/")
            self.host = authority.rpartition("@")[2]
            rest = slash + path
        self.path = rest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Url) and self.text == other.text

    __hash__ = None  # type: ignore[assignment]

    @property
    def hostname(self) -> str:
        """Return the host without port and brackets."""
        if self.host.startswith("["):
            return self.host[1:].partition("]")[0]
        return self.host.rpartition(":")[0] if ":" in self.host else self.host

    @property
    def port(self) -> str:
        """Return the port, '' if the URL has none."""
        rest = self.host.rpartition("]")[2]
        return rest.rpartition(":")[2] if ":" in rest else ""


def read_url(text: str) -> _Url:
    """Return the parts of a URL; _MalformedError with Go's message if it is invalid."""
    problem = _url_problem(text)
    if problem:
        raise _MalformedError(f"parse {quoted(text)}: {problem}")
    return _Url(text)


def url_problem(text: str) -> str:
    """Return the mistake in a URL, or ''."""
    problem = _url_problem(text)
    return f"parse {quoted(text)}: {problem}" if problem else ""


def _url_problem(text: str) -> str:
    if any(ord(rune) < 0x20 or ord(rune) == 0x7F for rune in text):
        return "net/url: invalid control character in URL"
    if not text:
        return "empty url"
    if len(text) > _LONGEST:
        return "URL too long"
    if text == "*":
        return ""
    match = _SCHEME.match(text)
    if match is None:
        if ":" in text.partition("/")[0] and not text.startswith("/"):
            head = text.partition(":")[0]
            return (
                "missing protocol scheme"
                if not head
                else "first path segment in URL cannot contain colon"
            )
        if not text.startswith("/"):
            return "invalid URI for request"
        rest = text
    else:
        rest = text[match.end() :]
        if not rest.startswith("/"):
            return "" if rest else "invalid URI for request"
    return _parts_problem(rest)


def _parts_problem(rest: str) -> str:
    rest = rest.partition("?")[0]
    escaped = _ESCAPED.search(rest)
    if escaped:
        return f"invalid URL escape {quoted(rest[escaped.start() : escaped.start() + 3])}"
    if not rest.startswith("//"):
        return ""
    host = rest[2:].partition("/")[0].rpartition("@")[2]
    if host.startswith("[") and "]" not in host:
        return "missing ']' in host"
    port = host.rpartition("]")[2] if host.startswith("[") else host[host.rfind(":") :]
    if (":" in host or host.startswith("[")) and not _PORT.fullmatch(port):
        return f"invalid port {quoted(port)} after host"
    stray = next((rune for rune in host if rune in ' "<>^`{|}\\'), "")
    return f"invalid character {quoted(stray)} in host name" if stray else ""


def _url(text: str) -> Any:
    try:
        return Opaque(types.URL, read_url(text))
    except _MalformedError as error:
        return EvaluationFault(f"URL parse error during conversion from string: {error}")


def _query(value: Opaque) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in value.value.query.split("&"):
        if not pair or ";" in pair or _ESCAPED.search(pair):
            continue
        key, _, item = pair.partition("=")
        found.setdefault(unquote_plus(key), []).append(unquote_plus(item))
    return found


NETWORK = Library(
    functions={
        "ip string_to_ip (string) -> ip": _ip,
        "family ip_family ip.() -> int": lambda value: value.value.version,
        "ip.isCanonical ip_is_canonical (string) -> bool": _is_canonical,
        "isUnspecified ip_is_unspecified ip.() -> bool": _of_address(
            lambda address: address.is_unspecified
        ),
        "isLoopback ip_is_loopback ip.() -> bool": _of_address(lambda address: address.is_loopback),
        "isLinkLocalMulticast ip_is_link_local_multicast ip.() -> bool": _of_address(
            _is_local_multicast
        ),
        "isLinkLocalUnicast ip_is_link_local_unicast ip.() -> bool": _of_address(
            lambda address: address.is_link_local
        ),
        "isGlobalUnicast ip_is_global_unicast ip.() -> bool": _of_address(_is_global),
        "isIP is_ip (string) -> bool": _is(_address),
        "string ip_to_string (ip) -> string": lambda value: str(value.value),
        "cidr string_to_cidr (string) -> cidr": _cidr,
        "containsIP cidr_contains_ip_string cidr.(string) -> bool": _contains_ip,
        "containsIP cidr_contains_ip_ip cidr.(ip) -> bool": _contains_ip,
        "containsCIDR cidr_contains_cidr_string cidr.(string) -> bool": _contains_cidr,
        "containsCIDR cidr_contains_cidr cidr.(cidr) -> bool": _contains_cidr,
        "ip cidr_ip cidr.() -> ip": lambda value: _ip_value(value.value[0]),
        "prefixLength cidr_prefix_length cidr.() -> int": lambda value: value.value[1],
        "masked cidr_masked cidr.() -> cidr": _masked,
        "isCIDR is_cidr (string) -> bool": _is(_network),
        "string cidr_to_string (cidr) -> string": lambda value: (
            f"{value.value[0]}/{value.value[1]}"
        ),
        "url string_to_url (string) -> url": _url,
        "getScheme url_get_scheme url.() -> string": lambda value: value.value.scheme,
        "getHost url_get_host url.() -> string": lambda value: value.value.host,
        "getHostname url_get_hostname url.() -> string": lambda value: value.value.hostname,
        "getPort url_get_port url.() -> string": lambda value: value.value.port,
        "getEscapedPath url_get_escaped_path url.() -> string": lambda value: value.value.path,
        "getQuery url_get_query url.() -> map<string, list<string>>": _query,
        "isURL is_url_string (string) -> bool": _is(read_url),
    },
)
