"""The packages that `make mutants` changes, and the tests that it chooses from.

`python -m tests.mutations.packages` prints the packages, with the argument `tests` the tests.
"""

import sys
from typing import Final

PACKAGES: Final = tuple(
    f"scheduler/{name}" for name in ("engine", "kube", "groups", "state", "framework", "daemon")
)
# The rest of the default suite starts processes or checks texts.
TESTS: Final = (
    "tests/unit",
    "tests/property",
    "tests/faults",
    "tests/agreement",
    "tests/vectors",
    "tests/simulated",
)

if __name__ == "__main__":
    print(*(TESTS if sys.argv[1:] == ["tests"] else PACKAGES))
