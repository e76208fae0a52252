"""`DeviceRules`: how devices are allocated where releases of Kubernetes, or feature gates,
differ.
"""

from typing import Final, NamedTuple

from scheduler.base.release import V1_37
from scheduler.framework.handle import Handle

FRACTIONS: Final = "DRAFractionalCapacityRange"
TAINT_RULES: Final = "DRADeviceTaintRules"
_NO_KEY: Final = "no such key"
_REMEDY: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check "
    "with has() for optional fields"
)


class DeviceRules(NamedTuple):
    """`is_1_37`: texts and errors of 1.37; `fractions`: capacity ranges may have fractions."""

    is_1_37: bool = False
    fractions: bool = False

    def selector_error(self, words: str, device: str, error: str) -> str:
        """Return the text of a selector that failed; `words` name it and end with a colon."""
        if not self.is_1_37 or not error.startswith("CEL runtime error"):
            return f"{words}{error}"
        advice = _REMEDY if _NO_KEY in error else ""
        return f"{words.removesuffix(': ')} on device {device}: {error}{advice}"


def rules_of(handle: Handle) -> DeviceRules:
    """Return the rules of the release and the gates that a profile runs with."""
    fractions = bool(handle.feature_gates.get(FRACTIONS))
    return DeviceRules(handle.release >= V1_37, fractions)
