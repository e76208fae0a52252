"""Facts about this build; free of imports, because `trellis version` must answer at once."""

from typing import Final

VERSION: Final = "0.1.0"
# The API server releases that the live tests ran against, and the oldest release that the chart
# accepts.
KUBERNETES_VERSIONS: Final = ("1.35", "1.36", "1.37")
OLDEST_KUBERNETES: Final = "1.30"


def version_text() -> str:
    """Return what `trellis version` prints."""
    tested = ", ".join(KUBERNETES_VERSIONS)
    return (
        f"trellis {VERSION}\nKubernetes: tested with {tested}; needs {OLDEST_KUBERNETES} or newer"
    )
