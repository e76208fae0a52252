"""Facts about this build; free of imports, because `trellis version` must answer at once."""

from typing import Final

VERSION: Final = "0.1.0"
# The API servers that the tests on a real one have run against, and the oldest that the chart
# takes.
KUBERNETES_VERSIONS: Final = ("1.35", "1.36")
OLDEST_KUBERNETES: Final = "1.30"


def version_text() -> str:
    """Return what `trellis version` prints."""
    tested = ", ".join(KUBERNETES_VERSIONS)
    return (
        f"trellis {VERSION}\nKubernetes: tested with {tested}; needs {OLDEST_KUBERNETES} or newer"
    )
