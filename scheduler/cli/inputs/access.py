"""How a cluster is reached, and the state of a cluster that was read.

Imports no client: a verb that reads files alone starts without one.
"""

from typing import NamedTuple

from scheduler.base.errors import InputError


class ClusterOptions(NamedTuple):
    """How to reach a cluster; `namespace` is the one to fall back on."""

    kubeconfig: str = ""
    context: str = ""
    timeout_s: float = 30.0
    namespace: str = ""


class SeenCluster(NamedTuple):
    """The current namespace, the time, unreadable kinds, and the API server's version or ''."""

    namespace: str
    now: float
    notices: tuple[str, ...]
    version: str = ""


def seconds(text: str, where: str = "--request-timeout") -> float:
    """Read a kubectl duration: `30`, `30s`, `2m` or `1h`; an InputError names the flag `where`."""
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    number, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1.0)
    if not number.isdecimal() or not int(number):
        raise InputError(f'"{text}" is not a duration like 30s', where=where)
    return int(number) * unit
