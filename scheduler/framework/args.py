"""The arguments of a plugin: a struct with defaults, decoded strictly from `pluginConfig[].args`.

The base is not frozen (mypy refuses unfrozen subclasses of a frozen one); arguments are
nevertheless never assigned after decoding.
"""

from collections.abc import Iterator, Mapping
from typing import Self

import msgspec


class Args(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Base of all plugin arguments: camelCase in files, unknown fields refused."""

    def validate(self) -> Iterator[tuple[str, str]]:
        """Yield `(field path, message)` for each rule across fields that does not hold."""
        yield from ()

    def gated(self) -> Mapping[str, str]:
        """Return field → feature gate for the given fields that have an effect only with that gate."""
        return {}

    def within(self, solve_s: float, workers: int) -> Self:
        """Return what holds in a process whose solves may last `solve_s` on so many processors.

        For plugins that ask the solver; the smaller of both limits counts.
        """
        del solve_s, workers
        return self


class NoArgs(Args):
    """For plugins that take none."""
