"""From the text of a selector to a program: parse, type, validate, plan, estimate.

Size is bounded by the limit of the API server, depth and time by the parser and by the size of
types. Every text yields a program or CelCompileError.
"""

from scheduler.cel.checking.checker import check
from scheduler.cel.checking.estimate import max_cost
from scheduler.cel.checking.types import ANY, BOOL, DYN, Type
from scheduler.cel.checking.validators import validate
from scheduler.cel.errors import CelCompileError
from scheduler.cel.evaluation.plan import plan
from scheduler.cel.evaluation.work import WORK_BUDGET, WorkExceededError
from scheduler.cel.parsing.parser import parse
from scheduler.cel.parsing.problems import SelectorProblems
from scheduler.cel.program import Program

LONGEST_TEXT = 10 * 1024  # resource.k8s.io: CELSelectorExpressionMaxLength, in bytes


def compile_selector(text: str, *, lists: bool = False) -> Program:
    """Return the program of a selector; CelCompileError with kube-apiserver's message if it is
    invalid.

    With `lists` attributes may be lists of values and `includes` exists. kube-scheduler 1.37
    compiles stored selectors so, while an API server rejects new ones unless its gate
    DRAListTypeAttributes is on.

    A program whose `max_cost` is above COST_LIMIT is returned too: only admission rejects it, while
    a stored selector is evaluated until it has used COST_LIMIT.
    """
    if len(text.encode("utf-8", "surrogatepass")) > LONGEST_TEXT:
        raise CelCompileError(f"Too long: may not be more than {LONGEST_TEXT} bytes")
    WORK_BUDGET.fill()
    try:
        return _compiled(text, lists)
    except RecursionError:
        raise CelCompileError("compilation failed: the expression nests too deeply") from None
    except WorkExceededError:
        raise CelCompileError("compilation failed: its constants are too large") from None


def _compiled(text: str, lists: bool) -> Program:
    problems = SelectorProblems(text)
    tree = parse(text, problems)
    kind, slots = check(tree, problems, lists=lists)
    validate(tree, problems)
    if kind is not BOOL and kind is not (DYN if lists else ANY):
        raise CelCompileError(f"must evaluate to bool or the unknown type, not {_written(kind)}")
    step = plan(tree)
    return Program(text, kind.name, max_cost(tree), step, slots)


def _written(kind: Type) -> str:
    if not kind.params:
        return kind.name
    return f"{kind.name}({', '.join(map(_written, kind.params))})"
