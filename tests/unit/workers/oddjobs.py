"""Kinds of jobs for the tests of the pool: they echo, never end, die, print or fail."""

import os
import signal

from scheduler.base.errors import InputError


def warm():
    """Do nothing: there is no module to load."""


def forever(payload):
    """Stop until killed, as an endless solve would."""
    os.kill(os.getppid(), 0)
    while True:
        signal.pause()


def die(payload):
    os._exit(3)


def odd(payload):
    raise ValueError("odd")


def refuse(payload):
    raise InputError("makes no sense")


def chatter(payload):
    print("a library prints")
    return payload, b""


KINDS = {
    "echo": lambda payload: (payload, payload[::-1]),
    "pid": lambda payload: (str(os.getpid()).encode(), b""),
    "nice": lambda payload: (str(os.nice(0)).encode(), b""),
    "forever": forever,
    "die": die,
    "odd": odd,
    "refuse": refuse,
    "chatter": chatter,
}
