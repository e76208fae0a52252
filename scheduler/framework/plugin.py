"""`Plugin`: what a plugin author subclasses.

A plugin overrides only the extension points it serves; the base defines none of them, it only
declares their shapes for type checkers. The type parameter is the plugin's `Args`, and binds
`pluginConfig[].args` to it. Nothing in a plugin is async and nothing does I/O: what must talk to the
API server (`pre_bind`, `bind`) is a generator that yields calls and receives their answers.

A filter that is not local can follow hypothetical pods by `add_pod(state, placed, row)` and
`remove_pod(state, placed, row)`, which change a clone of its state; otherwise its pre-filter runs anew
on the changed view. If it also has `concerns(state, placed)`, pods that make no difference cost
nothing; its state then holds no row-indexed column.

Where a plugin has `pre_filter`, the state it returns arrives as the last argument of `filter`,
`pre_score`, `score`, `reserve`, `unreserve` and `pre_bind`; a state returned by `pre_score` replaces
it for `score`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, get_args

from scheduler.framework.args import Args, NoArgs

if TYPE_CHECKING:
    from scheduler.framework.cycle import Cycle
    from scheduler.framework.handle import Handle
    from scheduler.framework.rowrule import RowRule

ArgsT = TypeVar("ArgsT", bound=Args)

# Extension points in the order of a pod's way; the names of methods and of kube-scheduler's lists.
POINTS: dict[str, str] = {
    "pre_enqueue": "preEnqueue",
    "less": "queueSort",
    "pre_filter": "preFilter",
    "filter": "filter",
    "post_filter": "postFilter",
    "pre_score": "preScore",
    "score": "score",
    "reserve": "reserve",
    "permit": "permit",
    "pre_bind": "preBind",
    "bind": "bind",
    "post_bind": "postBind",
}

# The same as kube-scheduler writes them in errors and metrics.
POINT_NAMES = {method: point[0].upper() + point[1:] for method, point in POINTS.items()} | {
    "unreserve": "Unreserve"
}


class Plugin(Generic[ArgsT]):
    """Base of all plugins.

    `reads` names the facts it looks at (scheduler.framework.reads). `local` says that its verdict on
    a row depends on that row and the pod alone: such a filter can be asked about hypotheticals and
    about single rows, and its state then holds no row-indexed column. `normalize` is "none", "max"
    (highest raw score becomes 100), "reverse" (lowest raw score becomes 100) or a method
    `(cycle, nodes, raw) -> column`. `on_the_spot` names those of `filter` and `score` that still work
    when a profile disables `pre_filter` or `pre_score`; the framework then makes the state when it is
    needed. `by_shape` names those of `pre_filter` and `pre_score` whose answer depends on the pod's
    shape and the arguments alone: the framework asks once per shape. `by_spec` says of these answers,
    and of `NOT_CONCERNED`, that they follow from the pod's spec alone, not from its labels, namespace
    or controller. `by_row` says more than `local`: the verdict of `filter` on a row follows from the
    row's node, its pods and the pod's shape, so it may be kept until one of them changes. `bounded`
    says that scores are within 0..100 on every row, feasible or not. `narrowed`
    says that `filter` must know which rows the plugins before it have left (`nodes.feasible`): what it
    raises is about these alone.

    `idle_at`, which an instance may set, names points (methods) where it does nothing with its
    arguments. A plugin that `sleeps()` has nothing to do with any pod: an attempt that begins
    meanwhile goes without it at all points. It is asked before every attempt.
    """

    name: ClassVar[str] = ""
    args_type: ClassVar[type[Args]] = NoArgs
    reads: ClassVar[tuple[str, ...]] = ()
    local: ClassVar[bool] = False
    on_the_spot: ClassVar[tuple[str, ...]] = ()
    by_shape: ClassVar[tuple[str, ...]] = ()
    by_spec: ClassVar[bool] = False
    by_row: ClassVar[bool] = False
    bounded: ClassVar[bool] = False
    narrowed: ClassVar[bool] = False
    normalize: Any = "none"
    idle_at: tuple[str, ...] = ()

    # Whether the state of pre-filter (of pre-filter or pre-score) is passed on: asked for every pod.
    takes_state: ClassVar[bool] = False
    takes_score_state: ClassVar[bool] = False

    if TYPE_CHECKING:
        # Shapes only: subclasses define the points they serve. `...` lets a subclass leave out the
        # trailing state argument.
        pre_enqueue: Callable[..., Any]
        less: Callable[..., bool]
        hint: Callable[..., bool]
        sleeps: Callable[[], bool]
        pre_filter: Callable[..., Any]
        filter: Callable[..., Any]
        post_filter: Callable[..., Any]
        pre_score: Callable[..., Any]
        score: Callable[..., Any]
        reserve: Callable[..., Any]
        unreserve: Callable[..., Any]
        permit: Callable[..., Any]
        pre_bind: Callable[..., Generator[Any, Any, Any]]
        bind: Callable[..., Generator[Any, Any, Any]]
        post_bind: Callable[..., None]

    def __init__(self, args: ArgsT, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__
        cls.takes_state = cls.serves("pre_filter")
        cls.takes_score_state = cls.takes_state or cls.serves("pre_score")
        for base in getattr(cls, "__orig_bases__", ()):
            for argument in get_args(base):
                if isinstance(argument, type) and issubclass(argument, Args):
                    cls.args_type = argument

    def filter_rule(self, cycle: Cycle) -> RowRule | None:
        """Return how `filter` judges pods of this spec row by row; None if it does more than that.

        What it returns follows from the spec alone (not from labels, namespace, controller, or the
        node's name), and so does whether the plugin skips such pods.
        """
        del cycle
        return None

    def score_rule(self, cycle: Cycle) -> RowRule | None:
        """Return how `score` judges pods of this spec row by row; None if it does more than that.

        With `cells`, scores are within 0..100 and `normalize` is "none". Without, the rule holds while
        they are one number for all rows, or are not normalized. Else as `filter_rule`.
        """
        del cycle
        return None

    @classmethod
    def serves(cls, method: str) -> bool:
        """Whether the plugin overrides the extension point `method` (snake_case)."""
        return hasattr(cls, method)

    @classmethod
    def points(cls) -> tuple[str, ...]:
        """Return the extension points it serves, in kube-scheduler's spelling."""
        return tuple(point for method, point in POINTS.items() if cls.serves(method))
