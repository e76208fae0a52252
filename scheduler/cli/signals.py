"""The signals that end a verb which runs until it is stopped."""

import asyncio
import signal
from collections.abc import Callable


def on_stop(stop: Callable[[], object]) -> None:
    """Call `stop` in the running loop for Ctrl-C, SIGTERM, and SIGHUP of a closed terminal.

    SIGHUP stays ignored where the process was started so (nohup).
    """
    loop = asyncio.get_running_loop()
    # A shell ignores SIGINT for its background jobs; `kill -INT` must end them nevertheless.
    loop.add_signal_handler(signal.SIGINT, stop)
    loop.add_signal_handler(signal.SIGTERM, stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, stop)
