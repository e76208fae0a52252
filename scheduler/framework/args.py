"""The arguments of a plugin: a struct with defaults, decoded strictly from `pluginConfig[].args`.

The base is not frozen because mypy rejects unfrozen subclasses of a frozen class. Arguments are
never assigned after decoding.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Self

import msgspec


class Args(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Base of all plugin arguments: camelCase in files, unknown fields rejected."""

    def validate(self) -> Iterator[tuple[str, str]]:
        """Yield `(field path, message)` for each violated rule across fields."""
        yield from ()

    def gated(self) -> Mapping[str, str]:
        """Return field → feature gate for the fields set here that take effect only with that
        gate.
        """
        return {}

    def within(self, solve_s: float, workers: int) -> Self:
        """Return the arguments limited to `solve_s` seconds per solve and `workers` processors.

        For plugins that call the solver; the smaller of both limits applies.
        """
        del solve_s, workers
        return self

    def derived_kinds(self) -> tuple[Collection[str], Collection[str]]:
        """Return two sets of workload kinds whose pods form groups: those that always do, and those
        that do where a namespace requests it.

        For the plugin of groups: the engine reads the objects of these kinds.
        """
        return (), ()


class NoArgs(Args):
    """The arguments of plugins without any."""
