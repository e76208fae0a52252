"""Plain data with a few values replaced by unusual ones."""

from copy import deepcopy
from random import Random
from typing import Any

Plain = Any
Place = tuple[Any, Any]

JUNK: tuple[Plain, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.5, -0.0, 1e308, "", " ",
    "null", "0",
    "-1", "\u0000", "\u202e", "x" * 2000, "💥", [], {}, [None], [[]], [{}], {"": ""}, {"a": None},
    ["a", 1, {}],
    {"matchLabels": {}}, {"x": [1, 2, {"y": "z"}]},
)  # fmt: skip


def mutate(document: Plain, random: Random, times: int) -> None:
    """Change up to `times` places of `document` itself."""
    for _ in range(times):
        places = list(_places(document))
        if not places:
            return
        _change(*random.choice(places), random)


def _places(value: Plain) -> list[Place]:
    """Return every place in a document: its container, and its key or index."""
    found: list[Place] = []
    waiting = [value]
    while waiting:
        holder = waiting.pop()
        keys = holder if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            found.append((holder, key))
            if isinstance(holder[key], dict | list):
                waiting.append(holder[key])
    return found


def _change(holder: Plain, key: Any, random: Random) -> None:
    old = holder[key]
    match random.randrange(8):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[random.choice(("", "x", key.upper(), key + "s", " " + key))] = holder.pop(key)
        case 2 if isinstance(old, list) and old:
            holder[key] = old * random.choice((2, 3, 40))
        case 3:
            holder[key] = [old]
        case 4:
            holder[key] = {random.choice(("", "x", "name", "matchLabels")): old}
        case 5 if isinstance(old, str):
            holder[key] = _text(old, random)
        case 6:
            holder[key] = _deep(old, random.choice((3, 60)))
        case _:
            holder[key] = deepcopy(random.choice(JUNK))  # a part of the document may be changed


def _text(old: str, random: Random) -> str:
    at = random.randint(0, len(old))
    return old[:at] + random.choice(("", "-", "/", ".", "\n", "é", "0" * 50, old)) + old[at + 1 :]


def _deep(value: Plain, depth: int) -> Plain:
    for _ in range(depth):
        value = {"matchLabels": value} if depth % 2 else [value]
    return value
