"""Facts about this build; free of imports, because `trellis version` must answer at once."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
# The API server versions that the tests run against.
KUBERNETES_VERSIONS: Final = ("1.36",)


def version_text() -> str:
    """Return what `trellis version` prints."""
    return f"trellis {VERSION}\nKubernetes: {', '.join(KUBERNETES_VERSIONS)}"
