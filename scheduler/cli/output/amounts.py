"""Amounts as people write them: `4,888`, `21.3Ti`, `12h`."""

from typing import Final

_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_STEP: Final = 1024


def amount(resource: str, value: float) -> str:
    """Return an amount of a resource: bytes with a binary suffix, all else with thousands marked.

    `value` is in whole units: CPUs, bytes, pieces.
    """
    if is_bytes(resource):
        return byte_text(value)
    if value == int(value):
        return f"{int(value):,}"
    return f"{value:,.1f}" if value >= 10 else f"{value:.3g}"


def is_bytes(resource: str) -> bool:
    """Return whether a resource counts bytes."""
    return resource in ("memory", "ephemeral-storage", "storage") or resource.startswith(
        "hugepages-"
    )


def byte_text(value: float) -> str:
    """Return bytes with three digits at least: `579Ti`, `21.3Ti`, `512Mi`."""
    step = 0
    while abs(value) >= _STEP and step < len(_BINARY) - 1:
        value, step = value / _STEP, step + 1
    if value == int(value):
        return f"{int(value)}{_BINARY[step]}"
    return f"{value:.0f}{_BINARY[step]}" if value >= 100 else f"{value:.3g}{_BINARY[step]}"


def duration(seconds: float) -> str:
    """Return an age as kubectl writes it: `45s`, `12m`, `3h`, `5d`."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"
