"""Structured logging: one set-up for the whole process, called once by the command line.

Logs go to stderr, as JSON lines or as text at a terminal. Values under names that may hold a secret
are masked. No other module configures logging; they ask structlog for a logger.
"""

import logging
import sys
from collections.abc import MutableMapping
from functools import lru_cache
from typing import Any

import msgspec
import structlog

from scheduler.base.errors import InputError
from scheduler.base.text import did_you_mean

_SECRET_WORDS = ("token", "password", "secret", "authorization", "client_key", "private_key")


def mask_secrets(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Replace the value of every key that may hold a secret."""
    for key in event:
        if _may_be_secret(key):
            event[key] = "***"
    return event


@lru_cache(maxsize=1000)  # the keys stand in the code, and there is a line for each decision
def _may_be_secret(key: str) -> bool:
    return any(word in key.lower() for word in _SECRET_WORDS)


def _encode(event: object, **_options: object) -> bytes:
    return msgspec.json.encode(event, enc_hook=str)


def configure(*, level: str = "info", form: str = "auto") -> "Threshold":
    """Set up logging: `level` debug…error, `form` json, console or auto (console on a terminal).

    The returned function changes the level later.
    """
    if form == "auto":
        form = "console" if sys.stderr.isatty() else "json"
    is_console = form == "console"
    # A line per decision is on the hot path: bytes straight to the stream, encoded by msgspec.
    render: Any = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
        if is_console
        else structlog.processors.JSONRenderer(serializer=_encode)
    )
    threshold = Threshold(level)
    structlog.configure(
        processors=[
            threshold,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            mask_secrets,
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr)
        if is_console
        else structlog.BytesLoggerFactory(sys.stderr.buffer),
        cache_logger_on_first_use=True,
    )
    # Libraries (kopf, aiohttp) log through the standard library; they share the stream.
    logging.basicConfig(
        level=max(threshold.number, logging.WARNING),
        stream=sys.stderr,
        format="%(levelname)s %(name)s: %(message)s",
        force=True,
    )
    return threshold


class Threshold:
    """The level of the process; may be changed while it runs."""

    def __init__(self, level: str) -> None:
        self.number = 0
        self.set_level(level)

    def set_level(self, level: str) -> None:
        """Set the lowest level that is logged; InputError for an unknown name."""
        known = logging.getLevelNamesMapping()
        if level.upper() not in known:
            raise InputError(
                f'unknown log level "{level}"{did_you_mean(level, map(str.lower, known))}'
            )
        self.number = known[level.upper()]

    def __call__(
        self, _logger: object, method: str, event: MutableMapping[str, Any]
    ) -> MutableMapping[str, Any]:
        """Drop records below the level."""
        if structlog.processors.NAME_TO_LEVEL.get(method, logging.ERROR) < self.number:
            raise structlog.DropEvent
        return event
