"""The arguments of PodTopologySpread, with kube-scheduler's rules and texts."""

import json
from collections.abc import Iterator

from scheduler.framework import Args
from scheduler.objects.meta import LabelSelector, LabelSelectorRequirement
from scheduler.objects.names import qualified_name_problem
from scheduler.objects.pod import TopologySpreadConstraint

ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
DEFAULTING = ("System", "List")

# The types of `defaultConstraints`: a pod's, but a misspelt field in a file is an error.


class StrictExpression(LabelSelectorRequirement, frozen=True, forbid_unknown_fields=True):
    """An expression of a label selector in a configuration file."""


class StrictLabelSelector(LabelSelector, frozen=True, forbid_unknown_fields=True):
    """A label selector in a configuration file."""

    match_expressions: tuple[StrictExpression, ...] = ()


class DefaultConstraint(TopologySpreadConstraint, frozen=True, forbid_unknown_fields=True):
    """A constraint for pods without constraints of their own; its selector follows from the pod's
    owners.
    """

    max_skew: int = 0
    label_selector: StrictLabelSelector | None = None


class PodTopologySpreadArgs(Args):
    """`defaultingType` System takes built-in constraints, List takes `defaultConstraints`."""

    default_constraints: tuple[DefaultConstraint, ...] = ()
    defaulting_type: str = "System"

    def validate(self) -> Iterator[tuple[str, str]]:
        """Yield the rules across fields that do not hold."""
        if self.defaulting_type not in DEFAULTING:
            yield "defaultingType", _unsupported(self.defaulting_type, DEFAULTING)
        elif self.defaulting_type == "System" and self.default_constraints:
            detail = "when .defaultConstraints are not empty"
            yield "defaultingType", f'Invalid value: "System": {detail}'
        seen: set[tuple[str, str]] = set()
        for index, constraint in enumerate(self.default_constraints):
            path = f"defaultConstraints[{index}]"
            yield from _faults(path, constraint)
            pair = (constraint.topology_key, constraint.when_unsatisfiable)
            if pair in seen:
                yield path, f'Duplicate value: "{{{pair[0]}, {pair[1]}}}"'
            seen.add(pair)


def _faults(path: str, constraint: DefaultConstraint) -> Iterator[tuple[str, str]]:
    if constraint.max_skew <= 0:
        yield (
            f"{path}.maxSkew",
            f"Invalid value: {constraint.max_skew}: not in valid range (0, inf)",
        )
    key, action = constraint.topology_key, constraint.when_unsatisfiable
    if not key:
        yield f"{path}.topologyKey", "Required value: can not be empty"
    elif problem := qualified_name_problem(key):
        yield f"{path}.topologyKey", f"Invalid value: {json.dumps(key)}: {problem}"
    if not action:
        yield f"{path}.whenUnsatisfiable", "Required value: can not be empty"
    elif action not in ACTIONS:
        yield f"{path}.whenUnsatisfiable", _unsupported(action, ACTIONS)
    if constraint.label_selector is not None:
        text = "Forbidden: constraint must not define a selector, as they deduced for each pod"
        yield f"{path}.labelSelector", text


def _unsupported(value: str, supported: tuple[str, ...]) -> str:
    listed = ", ".join(f'"{one}"' for one in supported)
    return f'Unsupported value: "{value}": supported values: {listed}'
