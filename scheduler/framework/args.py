"""The arguments of a plugin: a struct with defaults, decoded strictly from `pluginConfig[].args`.

The base is not frozen (mypy refuses unfrozen subclasses of a frozen one); arguments are
nevertheless never assigned after decoding.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class Args(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Base of all plugin arguments: camelCase in files, unknown fields refused."""

    def validate(self) -> Iterator[tuple[str, str]]:
        """Yield `(field path, message)` for each rule across fields that does not hold."""
        yield from ()


class NoArgs(Args):
    """For plugins that take none."""
