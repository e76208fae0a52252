"""Rules for the levels of a tree, in Sakkara's keys: of a group, or of one role of its members.

Numeric keys are hard, `type` is a preference unless `hard` is set. An invalid value raises
ObjectError with the key's name; pure.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from scheduler.base.errors import ObjectError
from scheduler.framework.duration import Duration, seconds
from scheduler.groups.problem.instance import NEUTRAL, LevelRule
from scheduler.groups.sources import inputs

KEYS = ("type", "hard", "for", *NEUTRAL)
LONGEST_S = 366 * 24 * 3600.0


class LevelConstraint(msgspec.Struct, frozen=True):
    """The rule of one level; 0 for a number that is not given, `factor` 1 for any count.

    With `for_s` a hard type becomes a preference after so many seconds of waiting; 0: never.
    """

    type: Literal["pack", "spread"] = "pack"
    hard: bool = False
    partitions: int = 0
    min: int = 0
    max: int = 0
    factor: int = 1
    for_s: float = 0.0

    def for_solver(self) -> LevelRule:
        """Return the solver's rule; as in Sakkara, a min or max alone does not bind."""
        both = self.min > 0 and self.max > 0
        return LevelRule(
            self.type,
            self.hard,
            self.min if both else 0,
            self.max if both else 0,
            self.partitions,
            self.factor,
        )


def constraints(levels: Mapping[str, Any], where: str) -> dict[str, LevelConstraint]:
    """Read the rules by level; whether the levels exist is checked against a topology."""
    inputs.check_count(levels, inputs.MOST_LEVELS, where, "levels")
    return {
        level: _constraint(rule, f"{where}.{level:.{inputs.LONGEST_NAMED}}")
        for level, rule in levels.items()
    }


def _constraint(rule: Any, where: str) -> LevelConstraint:
    if not isinstance(rule, dict):
        raise ObjectError(f"{where}: a JSON object is needed, not {inputs.kind_of(rule)}")
    inputs.known(rule, KEYS, where)
    kind = rule.get("type", "pack")
    if kind not in ("pack", "spread"):
        raise ObjectError(f'{where}.type: "pack" or "spread" is needed, not {kind!r:.60}')
    hard = rule.get("hard", False)
    if not isinstance(hard, bool):
        raise ObjectError(f"{where}.hard: true or false is needed, not {inputs.kind_of(hard)}")
    least, most = _count(rule, "min", where), _count(rule, "max", where)
    if least and most and least > most:
        raise ObjectError(f"{where}: min {least} is above max {most}")
    return LevelConstraint(
        kind,
        hard,
        _count(rule, "partitions", where),
        least,
        most,
        _count(rule, "factor", where) or 1,
        _for_s(rule, where, hard=hard),
    )


def _for_s(rule: Mapping[str, Any], where: str, *, hard: bool) -> float:
    text = rule.get("for", "")
    if not text:
        return 0.0
    try:
        value = seconds(msgspec.convert(text, Duration))
    except msgspec.ValidationError:
        value = 0.0
    if not 0.0 < value <= LONGEST_S:
        raise ObjectError(
            f'{where}.for: a time like "10m" is needed, up to a year, not {text!r:.60}'
        )
    if not hard or any(rule.get(key) for key in NEUTRAL):
        raise ObjectError(f"{where}.for: only a hard type, without numbers, becomes a wish")
    return value


def _count(rule: Mapping[str, Any], key: str, where: str) -> int:
    return inputs.json_number(rule.get(key, 0), 0, inputs.LARGEST_NUMBER, f"{where}.{key}")
