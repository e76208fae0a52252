"""`Release`: a minor version of Kubernetes, such as 1.37, by which behaviour may differ."""

import re
from typing import Final, NamedTuple

from scheduler.base.errors import InputError

_TEXT: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?![\d])")


class Release(NamedTuple):
    """A minor release; compares by number."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


V1_36: Final = Release(1, 36)
V1_37: Final = Release(1, 37)
V1_38: Final = Release(1, 38)
# Assumed where no API server and no snapshot states a version.
DEFAULT: Final = V1_36


def read_release(text: str, *, where: str = "") -> Release:
    """Return the minor release of a text such as `v1.37.2`; InputError for any other text."""
    found = _TEXT.match(text.strip())
    if found is None:
        raise InputError(f'"{text[:40]}" is not a Kubernetes version such as 1.37', where=where)
    return Release(int(found[1]), int(found[2]))
