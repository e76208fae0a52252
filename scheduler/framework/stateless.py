"""What is said when a profile disables the point that leaves a plugin its state.

kube-scheduler's plugins word it differently. A plugin names its own words in `unread`, by the method
that is missing; `{}` stands for the quoted name of the state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_WORDS: Mapping[str, str] = {
    "pre_filter": "reading {} from cycleState: not found",
    "pre_score": "failed to read {} from cycleState: not found",
}
_POINT = {"pre_filter": "PreFilter", "pre_score": "PreScore"}


def without_state(plugin: Any, method: str) -> str:
    """Return why a plugin cannot work without what `method` would have returned."""
    words: str = plugin.unread.get(method, _WORDS[method])
    return words.format(f'"{_POINT[method]}{plugin.name}"')
