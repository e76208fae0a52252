"""Numbered batches of random cases, of which the default suite runs the first ones."""

from typing import Any

import pytest


def batches(default: int, full: int, size: int = 25) -> list[Any]:
    """Return parameters for `full` cases in batches of `size`; those beyond `default` are long."""
    return [
        pytest.param(n, marks=() if n < default // size else pytest.mark.long)
        for n in range(full // size)
    ]
