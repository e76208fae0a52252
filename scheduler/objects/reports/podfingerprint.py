"""Fingerprints: the short text by which an agent reports which pods its figures include.

A pod's mark depends on its namespace and name alone; the text of a set depends on the set alone,
not on any order. Pure functions; the format is that of the podfingerprint library, version v001.
"""

from collections.abc import Iterable
from struct import pack

from xxhash import xxh64_intdigest

PREFIX, VERSION = "pfp0", "v001"


def mark_of(namespace: str, name: str) -> int:
    """Return the mark of a pod."""
    return xxh64_intdigest(name.encode(), seed=xxh64_intdigest(namespace.encode()))


def fingerprint(marks: Iterable[int]) -> str:
    """Return the fingerprint of the set of pods with these marks."""
    ordered = sorted(marks)
    return f"{PREFIX}{VERSION}{xxh64_intdigest(pack(f'<{len(ordered)}Q', *ordered)):016x}"


def is_fingerprint(text: str) -> bool:
    """Return whether `text` is comparable: prefix, version and length are valid."""
    return text.startswith(PREFIX + VERSION) and len(text) == 24
