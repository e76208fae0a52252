"""Names of objects as hashes, for a support bundle that leaves the organisation.

Names are collected from the daemon's answers; every occurrence of such a name as a word gets the
same hash. The key is created for each `NameTable`, so that names cannot be guessed by hashing
candidates. Text in quotes or braces in a message is treated as a user's name or value, too. Words
of the API, of plugins and of resources stay.
"""

import hashlib
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any, Final

_KEPT: Final = frozenset(("default", "kube-system", "kube-public", "kube-node-lease", "trellis"))
_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_QUOTED: Final = re.compile(r'(?<=["{])[^"{}]+(?=["}])')
_LABEL: Final = re.compile(r'(?<==")((?:[^"\\]|\\.)*)(?=")')
# Fields that hold names, or texts with names in them.
_NAMES: Final = frozenset(
    (
        "pod",
        "pods",
        "name",
        "namespace",
        "uid",
        "node",
        "nominated",
        "nominatedNode",
        "victims",
        "gatedBy",
    )
)
_TEXTS: Final = frozenset(("message", "reason", "reasons", "why"))


class NameTable:
    """Hashes the names that are found in `documents`, by their file names."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._key = secrets.token_bytes(16)
        self._names: dict[str, str] = {}
        for name in ("nodes.json", "queues.json", "decisions.json"):
            for found in _names(documents.get(name)):
                for word in _WORD.findall(found):
                    if word not in _KEPT:
                        self._names[word] = self._hash(word)

    def document(self, value: Any, under: str = "") -> Any:
        """Return a document with names hashed; `under` is the field that holds it."""
        if isinstance(value, dict):
            return {
                self._key_of(key, under): self.document(
                    one, "rejected" if under == "rejected" else key
                )
                for key, one in value.items()
            }
        if isinstance(value, list):
            return [self.document(one, under) for one in value]
        if not isinstance(value, str):
            return value
        return self._message(value) if under in _TEXTS else self.words(value)

    def text(self, text: str) -> str:
        """Return metrics or other plain text with the names in values of labels hashed."""
        return _LABEL.sub(lambda found: self.words(found[1]), text)

    def words(self, text: str) -> str:
        """Return a text with known names hashed."""
        return _WORD.sub(lambda found: self._names.get(found[0], found[0]), text)

    def _message(self, text: str) -> str:
        return self.words(_QUOTED.sub(lambda found: self._hash(found[0]), text))

    def _key_of(self, key: str, under: str) -> str:
        if under == "nodes":
            return self.words(key)
        return self._message(key) if under == "rejected" else key

    def _hash(self, word: str) -> str:
        return f"x{hashlib.blake2b(word.encode(), key=self._key, digest_size=6).hexdigest()}"


def _names(value: Any, under: str = "") -> Iterator[str]:
    """Yield the values of name fields; the keys of `nodes` are names, too."""
    if isinstance(value, dict):
        for key, one in value.items():
            if under == "nodes":
                yield key
            yield from _names(one, key)
    elif isinstance(value, list):
        for one in value:
            yield from _names(one, under)
    elif isinstance(value, str) and under in _NAMES:
        yield value
