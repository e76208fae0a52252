"""Traces a gang of four with a rack rule through `simulate`: which files of groups/ are entered, in
one process.

python -m tests.e2e.groupstrace
"""

import inspect
import sys
from types import FrameType

from tests.unit.plugins.groupobjects import group, members, tree
from tests.unit.simulate.asking import place

RACKS = {"rack-0": {"n0": 2, "n1": 2}, "rack-1": {"n2": 4, "n3": 4}}
RULES = {"rack": {"type": "pack", "hard": True}}


def traced() -> set[str]:
    """Return the files that the placement of a gang enters."""
    found: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        _, ours, file = code.co_filename.rpartition("/scheduler/")
        # Module and class bodies run once, on import.
        if event == "call" and ours and code.co_flags & inspect.CO_OPTIMIZED:
            found.add(file)

    gang = [group("gang", 4, RULES), *members("gang", 4)]
    place(*tree(RACKS), *gang)
    sys.setprofile(note)
    try:
        place(*tree(RACKS), *gang)
    finally:
        sys.setprofile(None)
    return {file for file in found if file.startswith("groups/")}


if __name__ == "__main__":
    print(*sorted(traced()), sep="\n")
