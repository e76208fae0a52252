"""Configurations for simulations: read once per text, for any number of cases.

Reading a configuration takes as long as ten small simulations, and many cases share one. Opens no
file; the caller passes text.
"""

from typing import Final

from scheduler.config import default_config, load
from scheduler.framework.registry import Registry
from scheduler.simulate.stage import Setup

MOST_KEPT: Final = 64


class Setups:
    """Setups by the text of their configuration; `default` is used for an empty text."""

    def __init__(self, registry: Registry, default: Setup | None = None) -> None:
        self._registry = registry
        self.default = default or Setup(default_config(registry), registry)
        self._known: dict[str, Setup] = {}

    def of(self, text: str, *, file: str) -> Setup:
        """Return the setup of a configuration; InvalidConfigError with all its mistakes."""
        found = self._known.get(text)
        if found is None:
            found = Setup(load(text, file=file, registry=self._registry), self._registry)
            if len(self._known) >= MOST_KEPT:
                self._known.pop(next(iter(self._known)))
            self._known[text] = found
        return found
