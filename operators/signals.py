"""Keep our signal handlers: kopf replaces SIGINT and SIGTERM each time it starts.

Whoever starts kopf takes a `KeptSignals` before and calls `put_back` in the same step of the loop in
which kopf's start returns. asyncio looks a handler up when it serves a signal, not when the signal
arrives, so no signal reaches kopf in between.
"""

import asyncio
import signal
from typing import Any, cast

WANTED_BY_KOPF = (signal.SIGINT, signal.SIGTERM)


class KeptSignals:
    """What stood for SIGINT and SIGTERM when this was made: of the loop, or of the process."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._process = {number: signal.getsignal(number) for number in WANTED_BY_KOPF}
        self._of_loop = {number: self._handlers().get(number) for number in WANTED_BY_KOPF}

    def put_back(self) -> None:
        """Make everything as it was."""
        handlers = self._handlers()
        for number, before in self._of_loop.items():
            if handlers.get(number) is before:
                continue  # also in a thread, where kopf leaves signals alone
            if before is not None:
                handlers[number] = before
            else:
                self._loop.remove_signal_handler(number)
                signal.signal(number, self._process[number])

    def _handlers(self) -> dict[int, asyncio.Handle]:
        # asyncio has no public way to read a handler back; this name is as old as the feature.
        return cast("dict[int, asyncio.Handle]", cast("Any", self._loop)._signal_handlers)  # noqa: SLF001
