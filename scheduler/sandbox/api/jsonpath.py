"""The part of JSONPath that printer columns, scale paths and selectable fields use.

`.a.b`, `['a']`, `[0]`, `[*]` and filters such as `[?(@.type=="Ready")]`; any other path yields no
value.
"""

import re
from functools import lru_cache
from typing import Any, Final

_STEP: Final = re.compile(
    r"""\.?(?:
        (?P<name>[A-Za-z0-9_\-/]+(?:\\\.[A-Za-z0-9_\-/]+)*)
      | \[\s*(?P<index>-?\d+)\s*\]
      | \[\s*(?P<all>\*)\s*\]
      | \[\s*['"](?P<quoted>[^'"]+)['"]\s*\]
      | \[\?\(\s*@\.(?P<key>[A-Za-z0-9_.\-/]+)\s*==\s*['"]?(?P<wanted>[^'"\)]*)['"]?\s*\)\]
    )""",
    re.VERBOSE,
)


def read(obj: Any, path: str) -> list[Any]:
    """Return the values at `path`, empty when there are none."""
    found = [obj]
    for kind, first, second in _steps(path):
        found = [value for item in found for value in _follow(item, kind, first, second)]
    return [value for value in found if value is not None]


@lru_cache(maxsize=512)
def _steps(path: str) -> tuple[tuple[str, str, str], ...]:
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps: list[tuple[str, str, str]] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None or match.end() == position:
            return (("none", "", ""),)
        position = match.end()
        if match["index"] is not None:
            steps.append(("index", match["index"], ""))
        elif match["all"]:
            steps.append(("all", "", ""))
        elif match["key"]:
            steps.append(("filter", match["key"], match["wanted"]))
        else:
            name = match["quoted"] or match["name"]
            steps.append(("name", name.replace("\\.", "."), ""))
    return tuple(steps)


def _follow(item: Any, kind: str, first: str, second: str) -> list[Any]:
    if kind == "name":
        return [item[first]] if isinstance(item, dict) and first in item else []
    if kind == "none":
        return []
    if isinstance(item, dict):
        item = list(item.values())
    if not isinstance(item, list):
        return []
    if kind == "all":
        return item
    if kind == "index":
        index = int(first)
        return [item[index]] if -len(item) <= index < len(item) else []
    return [part for part in item if _matches(part, first, second)]


def _matches(part: Any, key: str, wanted: str) -> bool:
    for step in key.split("."):
        part = part.get(step) if isinstance(part, dict) else None
    if isinstance(part, bool):
        part = "true" if part else "false"
    return part is not None and str(part) == wanted
