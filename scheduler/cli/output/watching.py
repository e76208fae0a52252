"""`-w`: print an answer again whenever it changes, until Ctrl-C."""

import time
from collections.abc import Callable

AGAIN_S = 2.0


def repeated(look: Callable[[], object], show: Callable[[], None], *, is_watched: bool) -> None:
    """Print the result of `look`; with watch, again whenever its return value differs."""
    last = look()
    show()
    while is_watched:
        time.sleep(AGAIN_S)
        found = look()
        if found != last:
            last = found
            print()
            show()
