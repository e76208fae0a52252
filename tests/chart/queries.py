"""The metric names of Trellis in a PromQL expression."""

import re

SUFFIXES = ("_bucket", "_sum", "_count")
PREFIXES = ("scheduler_", "trellis_", "leader_election_", "kubernetes_", "rest_client_")


def names_in(expression: str) -> set[str]:
    """Return the names of the table's rows that an expression reads."""
    found = set()
    for name in re.findall(r"[a-z_]+(?=[{\[])", expression):
        if name.startswith(PREFIXES):
            found.add(base(name))
    return found


def base(name: str) -> str:
    """Return the name of a metric from the name of one of its series."""
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name
