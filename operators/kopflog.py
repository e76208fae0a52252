"""What kopf logs, in our log and at our volume.

While the operators run, kopf's records go to structlog instead of the root logger. The runner says
itself when an operator ends and why, so kopf's own words are for debugging, except what it reports
about a handler of ours.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

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
def kopf_logs_redirected() -> Iterator[None]:
    """Take kopf's log for as long as the block runs, then leave it as it was."""
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
