"""Selectors of devices in CEL, the language of `DeviceClass` and `ResourceClaim` selectors.

The dialect is the one of kube-apiserver 1.36: standard functions, optional values, the extensions
of strings, lists, sets and two-variable macros, Kubernetes' own types. A text is compiled once,
bounded in size, depth and time, and asked about any number of devices, bounded by CEL's cost. The
package does not depend on scheduling: plugins and the sandbox pass expressions and devices to it.
"""

from scheduler.cel.compile import LONGEST_TEXT, compile_selector
from scheduler.cel.device import Attribute, DeviceInput, UnseenDevice
from scheduler.cel.errors import CelCompileError, CelRuntimeError
from scheduler.cel.evaluation.costs import COST_LIMIT
from scheduler.cel.evaluation.quantity import Quantity
from scheduler.cel.evaluation.semver import Version
from scheduler.cel.program import DeviceVerdict, Program
from scheduler.cel.rewrite import replace_texts

__all__ = [
    "COST_LIMIT",
    "LONGEST_TEXT",
    "Attribute",
    "CelCompileError",
    "CelRuntimeError",
    "DeviceInput",
    "DeviceVerdict",
    "Program",
    "Quantity",
    "UnseenDevice",
    "Version",
    "compile_selector",
    "replace_texts",
]
