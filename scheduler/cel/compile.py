"""From the text of a selector to a program."""

from __future__ import annotations

from scheduler.cel.program import Program


def compile_selector(text: str) -> Program:
    """Return the program of a selector; CelCompileError with kube-apiserver's words if it is none."""
    raise NotImplementedError
