"""Differences between ours and kube-scheduler that are known, each with its reason.

A rule names what it covers as narrowly as it can. An unknown difference fails the comparison: either
it is a fault of ours, or it needs a rule here and an entry in docs/compatibility.md.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from tests.real.comparison import ABSENT, Difference

# What the peer appends when plugins that we do not have yet could not help either.
SUFFIX = re.compile(r"^( no new claims to deallocate,)? ?(preemption: .*)?( ?not found)?$")


class Known(NamedTuple):
    """A rule: regular expressions for about, kind and path; `holds` looks at both values."""

    about: str
    kind: str
    path: str
    holds: Callable[[Any, Any], bool]
    why: str


def always(_peer: Any, _ours: Any) -> bool:
    """Hold for any two values."""
    return True


def missing(_peer: Any, ours: Any) -> bool:
    """Hold where only the peer has something."""
    return bool(ours == ABSENT)


def added(peer: Any, _ours: Any) -> bool:
    """Hold where only ours has something."""
    return bool(peer == ABSENT)


def has_suffix(peer: Any, ours: Any) -> bool:
    """Hold where the peer says the same and then what its other plugins could not do."""
    if not (isinstance(peer, str) and isinstance(ours, str) and peer.startswith(ours)):
        return False
    return bool(SUFFIX.match(peer[len(ours) :]))


RULES: tuple[Known, ...] = (
    Known(
        "pod|event",
        ".*",
        r"conditions\[\d+\]\.message|note",
        has_suffix,
        "DefaultPreemption and DynamicResources do not exist here yet, so their part of the text",
    ),
    Known(
        "pod|event",
        ".*",
        r".*\.?(managedFields|managers)\[\d+\]\.manager",
        lambda peer, ours: (peer, ours) == ("kube-scheduler", "trellis"),
        "The field manager is the program's own name",
    ),
)


def classify(differences: Iterable[Difference]) -> list[Difference]:
    """Return the differences, those that a rule covers with its reason."""
    return [msgspec.structs.replace(each, why=_why(each)) for each in differences]


def _why(difference: Difference) -> str:
    for rule in RULES:
        if (
            re.fullmatch(rule.about, difference.about)
            and re.fullmatch(rule.kind, difference.kind)
            and re.fullmatch(rule.path, difference.path)
            and rule.holds(difference.peer, difference.ours)
        ):
            return rule.why
    return ""
