"""Kubernetes' own values: quantities and semantic versions; the words of authorization.

Selectors have no authorizer, but its functions are declared, so that a text that uses them is told the
same as by kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scheduler.base.errors import ObjectError
from scheduler.cel.library import Library
from scheduler.cel.quantity import Quantity
from scheduler.cel.semver import Version
from scheduler.cel.values import Fault


def _read(read: Callable[[str], Any]) -> Callable[[str], Any]:
    def call(text: str) -> Any:
        try:
            return read(text)
        except ObjectError as error:
            return Fault(error.message)

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
    return Fault("cannot convert value to integer") if number is None else number


def _signed(number: int) -> int:
    """Return an unsigned number of 64 bits as Go converts it to a signed one."""
    return number - 2**64 if number >= 2**63 else number


KUBERNETES = Library(
    declared="""
        quantity string_to_quantity (string) -> quantity
        isQuantity is_quantity_string (string) -> bool
        sign quantity_sign (quantity) -> int
        isGreaterThan quantity_is_greater_than quantity.(quantity) -> bool
        isLessThan quantity_is_less_than quantity.(quantity) -> bool
        compareTo quantity_compare_to quantity.(quantity) -> int
        asApproximateFloat quantity_get_float quantity.() -> double
        asInteger quantity_get_int quantity.() -> int
        isInteger quantity_is_integer quantity.() -> bool
        add quantity_add quantity.(quantity) -> quantity
        add quantity_add_int quantity.(int) -> quantity
        sub quantity_sub quantity.(quantity) -> quantity
        sub quantity_sub_int quantity.(int) -> quantity
        semver string_to_semver (string) -> semver
        semver string_bool_to_semver (string, bool) -> semver
        isSemver is_semver_string (string) -> bool
        isSemver is_semver_string_bool (string, bool) -> bool
        isGreaterThan semver_is_greater_than semver.(semver) -> bool
        isLessThan semver_is_less_than semver.(semver) -> bool
        compareTo semver_compare_to semver.(semver) -> int
        major semver_major semver.() -> int
        minor semver_minor semver.() -> int
        patch semver_patch semver.() -> int
    """,
    single={
        "string_to_quantity": _read(Quantity.parse),
        "is_quantity_string": _readable(Quantity.parse),
        "quantity_sign": lambda value: (value.nanos > 0) - (value.nanos < 0),
        "quantity_is_greater_than": lambda a, b: a.compare(b) > 0,
        "quantity_is_less_than": lambda a, b: a.compare(b) < 0,
        "quantity_compare_to": lambda a, b: a.compare(b),
        "quantity_get_float": lambda value: value.approximate(),
        "quantity_get_int": _integer,
        "quantity_is_integer": lambda value: value.integer is not None,
        "quantity_add": lambda a, b: a.plus(b),
        "quantity_add_int": lambda a, b: a.plus(Quantity(b)),
        "quantity_sub": lambda a, b: a.minus(b),
        "quantity_sub_int": lambda a, b: a.minus(Quantity(b)),
        "string_to_semver": _read(Version.parse),
        "string_bool_to_semver": _semver,
        "is_semver_string": _readable(Version.parse),
        "is_semver_string_bool": _is_semver,
        "semver_is_greater_than": lambda a, b: a.compare(b) > 0,
        "semver_is_less_than": lambda a, b: a.compare(b) < 0,
        "semver_compare_to": lambda a, b: a.compare(b),
        "semver_major": lambda value: _signed(value.major),
        "semver_minor": lambda value: _signed(value.minor),
        "semver_patch": lambda value: _signed(value.patch),
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
