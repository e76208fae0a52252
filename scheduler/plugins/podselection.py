"""Label selectors over pods in a pod's spec; for the spread and the affinity.

Reads a selector into expressions as the API machinery does, reports parse errors, and adds the
requirements of `matchLabelKeys` and `mismatchLabelKeys`.
"""

import json
from collections.abc import Mapping, Sequence

from scheduler.objects.meta import LabelSelector, LabelSelectorRequirement
from scheduler.objects.names import label_value_problem, qualified_name_problem
from scheduler.state.selection import Expressions, canonical, expressions_of, pair


def selector_fault(selector: LabelSelector | None) -> str:
    """Return why a label selector is invalid, or ''."""
    if selector is None:
        return ""
    pairs = [pair(key, value) for key, value in selector.match_labels.items()]
    faults = (_fault(expression) for expression in (*pairs, *selector.match_expressions))
    return next((fault for fault in faults if fault), "")


def with_label_keys(
    selector: LabelSelector | None,
    labels: Mapping[str, str],
    same: Sequence[str] = (),
    other: Sequence[str] = (),
) -> Expressions | None:
    """Return the expressions of a selector for a pod with `labels`; None matches nothing.

    `same` are label keys whose value must equal the pod's, `other` those in which it must differ;
    keys that the pod does not have are ignored.
    """
    if selector is None:
        return None
    wanted = [pair(key, labels[key]) for key in same if key in labels]
    wanted += [
        LabelSelectorRequirement(key, "NotIn", (labels[key],)) for key in other if key in labels
    ]
    own = expressions_of(selector)
    return canonical([*own, *wanted]) if wanted else own


def _fault(expression: LabelSelectorRequirement) -> str:
    key, operator, values = expression.key, expression.operator, expression.values
    if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
        return f"{json.dumps(operator)} is not a valid label selector operator"
    problem = qualified_name_problem(key)
    if problem:
        return f"key: Invalid value: {json.dumps(key)}: {problem}"
    if operator in ("In", "NotIn") and not values:
        return "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
    if operator in ("Exists", "DoesNotExist") and values:
        return (
            f"values: Invalid value: {json.dumps(values)}: values set must be empty for exists "
            "and does not exist"
        )
    for index, value in enumerate(values):
        problem = label_value_problem(value)
        if problem:
            return f"values[{index}][{key}]: Invalid value: {json.dumps(value)}: {problem}"
    return ""
