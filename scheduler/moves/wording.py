"""Amounts as texts, as Kubernetes writes them."""

from __future__ import annotations

from scheduler.state.resources import CPU, EPHEMERAL, MEMORY


def amount(resource: str, number: int) -> str:
    """Return the text of an amount: cores of CPU, GiB of memory, units of other resources."""
    if resource == CPU:
        return f"{number / 1000:g}"
    if resource in (MEMORY, EPHEMERAL):
        return f"{number / 2**30:.3g}Gi"
    return str(number)
