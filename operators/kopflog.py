"""Route kopf's log records to Trellis' log, at a lower level.

While the operators run, kopf's records go to structlog instead of the root logger. The runner
itself logs when and why an operator ends, so kopf's messages are for debugging, except those about
our handlers.

A scan of kinds asks for several lists at once, and when one fails kopf raises that error and
forgets the others, whose errors asyncio then reports as never retrieved. They add nothing: the
first error has ended the operator, and the runner has logged it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from kopf._cogs.clients import scanning

HANDLERS = "kopf.objects"  # kopf's logger for all that belongs to an object and its handlers

_log = structlog.get_logger("operators.kopf")


class _ToStructlog(logging.Handler):
    """Passes records on; they carry no secrets, for kopf logs neither headers nor bodies."""

    def emit(self, record: logging.LogRecord) -> None:
        """Log one record."""
        serious = record.levelno >= logging.WARNING and record.name.startswith(HANDLERS)
        write = _log.warning if serious else _log.debug
        error = record.exc_info[1] if record.exc_info else None
        write(record.getMessage(), logger=record.name, error=repr(error) if error else None)


@contextmanager
def forgotten_errors_redirected() -> Iterator[None]:
    """Within the block, drop errors of abandoned requests of kopf's scans; pass on all others."""
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if _is_of_a_scan(context.get("future")):
            _log.debug(context["message"], error=repr(context.get("exception")))
        elif before is not None:
            before(loop, context)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)
    try:
        yield
    finally:
        loop.set_exception_handler(before)


def _is_of_a_scan(task: object) -> bool:
    code = getattr(task.get_coro(), "cr_code", None) if isinstance(task, asyncio.Task) else None
    return code is not None and code.co_filename == scanning.__file__


@contextmanager
def kopf_logs_redirected() -> Iterator[None]:
    """Redirect kopf's log while the block runs, then restore it."""
    logger = logging.getLogger("kopf")
    handler = _ToStructlog(logging.INFO)
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before
        logger.setLevel(logger.level)
