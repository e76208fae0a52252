"""The libraries of functions that selectors may use, as kube-apiserver's environment has them."""

from scheduler.cel.functions.table import FUNCTIONS

__all__ = ["FUNCTIONS"]
