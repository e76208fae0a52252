"""Structured logging: one set-up for the whole process, called once by the command line.

Logs go to stderr, as JSON lines or for a person at a terminal. Values under names that may hold a
secret are masked. No other module configures logging; they ask structlog for a logger.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import msgspec
import structlog

_SECRET_WORDS = ("token", "password", "secret", "authorization", "client_key", "private_key")


def mask_secrets(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Replace the value of every key that may hold a secret."""
    for key in event:
        if any(word in key.lower() for word in _SECRET_WORDS):
            event[key] = "***"
    return event


def _encode(event: object, **_options: object) -> bytes:
    return msgspec.json.encode(event, enc_hook=str)


def configure(*, level: str = "info", form: str = "auto") -> None:
    """Set up logging: `level` debug…error, `form` json, console or auto (console on a terminal)."""
    if form == "auto":
        form = "console" if sys.stderr.isatty() else "json"
    is_console = form == "console"
    # A line per decision is on the hot path: bytes straight to the stream, encoded by msgspec.
    render: Any = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
        if is_console
        else structlog.processors.JSONRenderer(serializer=_encode)
    )
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            mask_secrets,
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr)
        if is_console
        else structlog.BytesLoggerFactory(sys.stderr.buffer),
        cache_logger_on_first_use=True,
    )
    # Libraries (kopf, aiohttp) log through the standard library; they share the stream.
    logging.basicConfig(
        level=max(number, logging.WARNING),
        stream=sys.stderr,
        format="%(levelname)s %(name)s: %(message)s",
        force=True,
    )
