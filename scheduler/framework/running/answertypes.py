"""Check the type of what one plugin returns from one call.

The checks run where the value is inspected anyway and cost nothing for valid answers; the error
messages name the value returned and the value expected.
"""

from collections.abc import Generator
from typing import Any, NoReturn

import numpy as np

from scheduler.base.arrays import IntColumn
from scheduler.framework.points import Steps
from scheduler.framework.postfilter import PostFiltered
from scheduler.framework.status import Rejected, Status

_BOOL = np.dtype(np.bool_)
_INT64 = np.dtype(np.int64)


def status_of(answer: Any, method: str) -> Status | None:
    """Return an answer that is None or a `Status`; raise TypeError for any other."""
    if answer is not None and not isinstance(answer, Status):
        _refuse(method, answer, "None or a Status, such as unschedulable(reason)")
    return answer


def post_filtered_of(answer: Any) -> PostFiltered:
    """Return the result of `post_filter`; raise TypeError for anything but `PostFiltered`."""
    if not isinstance(answer, PostFiltered):
        _refuse("post_filter", answer, "a PostFiltered")
    return answer


def rejection_of(answer: Any, size: int) -> Rejected | None:
    """Return the result of `filter` for `size` rows; raise TypeError unless None or `Rejected`."""
    if answer is None:
        return None
    if not isinstance(answer, Rejected):
        _refuse("filter", answer, "None or a Rejected, such as reject(rows, reason)")
    if not _is_column(answer.rows, _BOOL, size):
        _refuse("filter", answer.rows, f"rows as a column of {size} bools", "rejected ")
    return answer


def steps_of(answer: Any, method: str) -> Steps:
    """Return the generator of `pre_bind` or `bind`; raise TypeError for anything else."""
    if not isinstance(answer, Generator):
        _refuse(method, answer, "a generator: it yields what it asks for")
    steps: Steps = answer
    return steps


def scores_of(answer: Any, size: int, method: str = "score") -> IntColumn:
    """Return the result of `score` (or `normalize`) for `size` rows.

    Raise TypeError for any other type.
    """
    if not _is_column(answer, _INT64, size):
        _refuse(method, answer, f"an int64 column of {size} rows")
    column: IntColumn = answer
    return column


def described(value: Any) -> str:
    """Return a short description of a value's type."""
    if isinstance(value, np.ndarray):
        if value.ndim == 1:
            return f"a column of {len(value)} {value.dtype.name} values"
        return f"an array of shape {value.shape}"
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _is_column(value: Any, dtype: np.dtype[Any], size: int) -> bool:
    return (
        isinstance(value, np.ndarray)
        and value.dtype == dtype
        and value.ndim == 1
        and len(value) == size
    )


def _refuse(method: str, answer: Any, expected: str, what: str = "") -> NoReturn:
    raise TypeError(f"{method} returned {what}{described(answer)}; expected is {expected}")
