"""Kubernetes' own values: quantities and semantic versions; the words of authorization.

Selectors have no authorizer, but its functions are declared, so that an expression that uses them
gets the same error as from kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scheduler.base.errors import ObjectError
from scheduler.cel.evaluation.quantity import Quantity
from scheduler.cel.evaluation.semver import Version
from scheduler.cel.evaluation.values import EvaluationFault
from scheduler.cel.library import Library


def _read(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def call(text: str) -> Any:
        try:
            return read(text)
        except ObjectError as error:
            return EvaluationFault(error.message)

    return call


def _readable(read: Callable[[str], Any]) -> Callable[[str], bool]:
    def call(text: str) -> bool:
        try:
            read(text)
        except ObjectError:
            return False
        return True

    return call


def _semver(text: str, normalize: bool) -> Any:
    return _read(Version.normalized if normalize else Version.parse)(text)


def _is_semver(text: str, normalize: bool) -> bool:
    return _readable(Version.normalized if normalize else Version.parse)(text)


def _integer(value: Quantity) -> Any:
    number = value.integer
    return EvaluationFault("cannot convert value to integer") if number is None else number


def _signed(number: int) -> int:
    """Return an unsigned 64-bit number converted to a signed one as in Go."""
    return number - 2**64 if number >= 2**63 else number


KUBERNETES = Library(
    functions={
        "quantity string_to_quantity (string) -> quantity": _read(Quantity.parse),
        "isQuantity is_quantity_string (string) -> bool": _readable(Quantity.parse),
        "sign quantity_sign (quantity) -> int": lambda value: (value.nanos > 0) - (value.nanos < 0),
        "isGreaterThan quantity_is_greater_than quantity.(quantity) -> bool": lambda a, b: (
            a.compare(b) > 0
        ),
        "isLessThan quantity_is_less_than quantity.(quantity) -> bool": lambda a, b: (
            a.compare(b) < 0
        ),
        "compareTo quantity_compare_to quantity.(quantity) -> int": lambda a, b: a.compare(b),
        "asApproximateFloat quantity_get_float quantity.() -> double": lambda value: (
            value.approximate()
        ),
        "asInteger quantity_get_int quantity.() -> int": _integer,
        "isInteger quantity_is_integer quantity.() -> bool": lambda value: (
            value.integer is not None
        ),
        "add quantity_add quantity.(quantity) -> quantity": lambda a, b: a.plus(b),
        "add quantity_add_int quantity.(int) -> quantity": lambda a, b: a.plus(Quantity(b)),
        "sub quantity_sub quantity.(quantity) -> quantity": lambda a, b: a.minus(b),
        "sub quantity_sub_int quantity.(int) -> quantity": lambda a, b: a.minus(Quantity(b)),
        "semver string_to_semver (string) -> semver": _read(Version.parse),
        "semver string_bool_to_semver (string, bool) -> semver": _semver,
        "isSemver is_semver_string (string) -> bool": _readable(Version.parse),
        "isSemver is_semver_string_bool (string, bool) -> bool": _is_semver,
        "isGreaterThan semver_is_greater_than semver.(semver) -> bool": lambda a, b: (
            a.compare(b) > 0
        ),
        "isLessThan semver_is_less_than semver.(semver) -> bool": lambda a, b: a.compare(b) < 0,
        "compareTo semver_compare_to semver.(semver) -> int": lambda a, b: a.compare(b),
        "major semver_major semver.() -> int": lambda value: _signed(value.major),
        "minor semver_minor semver.() -> int": lambda value: _signed(value.minor),
        "patch semver_patch semver.() -> int": lambda value: _signed(value.patch),
    },
)

AUTHORIZATION = Library(
    declared="""
        path authorizer_path authorizer.(string) -> pathcheck
        group authorizer_group authorizer.(string) -> groupcheck
        serviceAccount authorizer_serviceaccount authorizer.(string, string) -> authorizer
        resource groupcheck_resource groupcheck.(string) -> resourcecheck
        subresource resourcecheck_subresource resourcecheck.(string) -> resourcecheck
        namespace resourcecheck_namespace resourcecheck.(string) -> resourcecheck
        name resourcecheck_name resourcecheck.(string) -> resourcecheck
        check pathcheck_check pathcheck.(string) -> decision
        check resourcecheck_check resourcecheck.(string) -> decision
        allowed decision_allowed decision.() -> bool
        reason decision_reason decision.() -> string
        errored decision_errored decision.() -> bool
        error decision_error decision.() -> string
        fieldSelector authorizer_fieldselector resourcecheck.(string) -> resourcecheck
        labelSelector authorizer_labelselector resourcecheck.(string) -> resourcecheck
    """,
)
