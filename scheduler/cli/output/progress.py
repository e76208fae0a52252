"""Progress lines on stderr for work that takes longer than two seconds, on a terminal only."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

PATIENCE_S = 2.0
AGAIN_S = 5.0


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Print `text` with the elapsed seconds while the block runs; nothing for a short block."""
    if not sys.stderr.isatty():
        yield
        return
    done, began = Event(), monotonic()

    def tick() -> None:
        wait_s = PATIENCE_S
        while not done.wait(wait_s):
            print(f"{text}: {monotonic() - began:.0f} s so far", file=sys.stderr, flush=True)
            wait_s = AGAIN_S

    teller = Thread(target=tick, daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()
