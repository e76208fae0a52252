"""`Plugin`: the base class for plugin authors.

A plugin overrides only the extension points it serves; the base defines none of them, it only
declares their types for type checkers. The type parameter is the plugin's `Args`, and binds
`pluginConfig[].args` to it. Nothing in a plugin is async and nothing does I/O: points that need the
API server (`pre_bind`, `bind`) are generators that yield calls and receive their answers.

A filter that is not local can follow hypothetical pods by `add_pod(state, placed, row)` and
`remove_pod(state, placed, row)`, which change a clone of its state; otherwise its pre-filter runs
again on the changed view. If it also has `concerns(state, placed)`, irrelevant pods cost nothing;
its state then holds no row-indexed column.

If a plugin has `pre_filter`, the state it returns is the last argument of `filter`, `pre_score`,
`score`, `reserve`, `unreserve` and `pre_bind`; a state returned by `pre_score` replaces it for
`score`.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
)

from scheduler.framework.args import Args, NoArgs

if TYPE_CHECKING:
    from scheduler.base.arrays import BoolColumn, IntColumn, Rows
    from scheduler.framework.calls import ApiCall
    from scheduler.framework.cycle import Cycle
    from scheduler.framework.handle import Handle
    from scheduler.framework.nodes import Nodes
    from scheduler.framework.points import Steps
    from scheduler.framework.postfilter import FitFailure, PostFiltered
    from scheduler.framework.status import Rejected, Status
    from scheduler.framework.together import (
        AreaPaths,
        AssignedMember,
        MemberConflict,
        MemberDemand,
        RowCapacity,
    )
    from scheduler.objects.pod import Pod
    from scheduler.state.change import Change
    from scheduler.state.podindex import Placed

ArgsT = TypeVar("ArgsT", bound=Args)

# Extension points in the order in which a pod passes them: names of methods and of kube-scheduler's
# lists.
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

# The names that kube-scheduler uses in errors and metrics.
POINT_NAMES = {method: point[0].upper() + point[1:] for method, point in POINTS.items()} | {
    "unreserve": "Unreserve"
}


class Versioned(Protocol):
    """Data from which keys are computed; `version` changes with each change of it.

    `handle.objects(kind)` returns one; trackers may have such parts. Equal versions imply equal
    keys.
    """

    @property
    def version(self) -> int:
        """Return a number that changes with each change that is relevant to a key."""


class _EachPod:
    """The key of pods that are equivalent to no other pod."""

    def __repr__(self) -> str:
        return "EACH_POD"


# Returned by `Plugin.key` for a pod for which the plugin runs in every attempt.
EACH_POD: Final = _EachPod()


class Plugin(Generic[ArgsT]):
    """Base class of all plugins.

    `reads` names the facts that the plugin depends on (scheduler.state.facts): their changes wake
    the pods it rejected and invalidate its cached results. `local` states that its verdict on a row
    depends on that row and the pod alone: such a filter can run on hypothetical and on single rows,
    and its state then holds no row-indexed column. `normalize` is "none" (raw scores are within
    0..100), "max" (highest raw score becomes 100), "reverse" (lowest raw score becomes 100) or a
    method `(cycle, nodes, raw) -> column`.

    If a profile disables `pre_filter` or `pre_score`, the state is computed on demand. A plugin
    that cannot work without one of them, as several of kube-scheduler's, lists the method in
    `unread` with the reason. `key_follows`, set by an instance, is the data that `key` reads
    besides the pod.

    `hinted(change)` returns the uids of the only waiting pods for which `hint` may return True, or
    None for any: for a plugin without a key with many waiting pods. `chances(change, names)`
    returns upper bounds on the free amounts of `names` after a change, per minimum priority, or
    None for no bound. If `needs(key)` (amounts by name) exceeds every bound, `hint` returns False
    for pods of this key. `preempts` states that `post_filter` searches victims; the duration is
    measured as that of a preemption.
    """

    name: ClassVar[str] = ""
    args_type: ClassVar[type[Args]] = NoArgs
    reads: ClassVar[tuple[str, ...]] = ()
    local: ClassVar[bool] = False
    preempts: ClassVar[bool] = False
    unread: ClassVar[Mapping[str, str]] = {}
    normalize: Any = "none"
    key_follows: tuple[Versioned, ...] = ()

    # Whether it has a key, and whether the state of pre-filter (of pre-filter or pre-score) is
    # passed on.
    has_key: ClassVar[bool] = False
    takes_state: ClassVar[bool] = False
    takes_score_state: ClassVar[bool] = False

    if TYPE_CHECKING:
        # Types only: subclasses define the points they serve, and mypy checks them against these.
        # Where a state may come last, there are two types; `framework.points` ties the state to its
        # producer.
        pre_enqueue: "Callable[[Pod], Status | None]"
        less: Callable[[Any, Any], bool]
        hint: "Callable[[Change, Pod], bool]"
        hinted: "Callable[[Change], Collection[str] | None]"
        needs: "Callable[[Any], Sequence[tuple[str, int]]]"
        chances: "Callable[[Change, Iterable[str]], Sequence[tuple[int, Mapping[str, int]]] | None]"
        pre_filter: "Callable[[Cycle, Nodes], Any]"
        filter: (
            "Callable[[Cycle, Nodes], Rejected | None]"
            "| Callable[[Cycle, Nodes, Any], Rejected | None]"
        )
        post_filter: "Callable[[Cycle, Nodes, FitFailure], PostFiltered]"
        pre_score: "Callable[[Cycle, Nodes], Any] | Callable[[Cycle, Nodes, Any], Any]"
        score: "Callable[[Cycle, Nodes], IntColumn] | Callable[[Cycle, Nodes, Any], IntColumn]"
        reserve: (
            "Callable[[Cycle, str], Status | None] | Callable[[Cycle, str, Any], Status | None]"
        )
        unreserve: "Callable[[Cycle, str], Any] | Callable[[Cycle, str, Any], Any]"
        permit: "Callable[[Cycle, str], Status | None]"
        pre_bind: "Callable[[Cycle, str], Steps] | Callable[[Cycle, str, Any], Steps]"
        bind: "Callable[[Cycle, str], Steps]"
        post_bind: "Callable[[Cycle, str], None]"
        add_pod: "Callable[[Any, Placed, int], None]"
        remove_pod: "Callable[[Any, Placed, int], None]"
        concerns: "Callable[[Any, Placed], bool]"
        is_affected: "Callable[[Pod, Pod], bool]"
        figures: "Callable[[Cycle, str], tuple[str, ...]]"
        row_capacity: "Callable[[Cycle, Nodes, MemberDemand, Any], RowCapacity]"
        assign_together: "Callable[[Sequence[AssignedMember]], MemberConflict | None]"
        release_allocations: "Callable[[Sequence[Pod]], tuple[ApiCall, ...]]"
        unbounded: "Callable[[Nodes, Iterable[str]], Mapping[str, BoolColumn]]"
        network_paths: "Callable[[Pod, Rows], AreaPaths | None]"
        sort_key: Callable[[Any], Any]

    def __init__(self, args: ArgsT, handle: "Handle") -> None:
        self.args = args
        self.handle = handle

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__
        cls.has_key = cls.key is not Plugin.key
        cls.takes_state = cls.serves("pre_filter")
        cls.takes_score_state = cls.takes_state or cls.serves("pre_score")
        for base in getattr(cls, "__orig_bases__", ()):
            origin = get_origin(base)
            if isinstance(origin, type) and issubclass(origin, Plugin):
                for argument in get_args(base):
                    if isinstance(argument, type) and issubclass(argument, Args):
                        cls.args_type = argument

    def key(self, pod: "Pod") -> Hashable | None:
        """Return equal keys for pods that get the same results from `filter` and `score`.

        None if the plugin does not apply. The results for a row must depend on the key, the row
        (all rows, if not `local`) and the facts in `reads` alone: not on the time, on
        `nodes.feasible`, or on trackers that follow other facts. `hint` runs once for waiting pods
        of one key and priority. Results are cached and updated from pod to pod. None skips the
        plugin at all points but `permit` and `post_bind`; its `pre_filter` and `pre_score` must
        return Skip for such pods too, since they may run on hypothetical nodes. The key follows
        from the pod's shape (spec without the node's name, labels, namespace, controller) and from
        `key_follows`. `EACH_POD`, the default, caches nothing.
        """
        del pod
        return EACH_POD

    @classmethod
    def serves(cls, method: str) -> bool:
        """Return whether the plugin overrides the extension point `method` (snake_case)."""
        for base in cls.__mro__:
            if method in base.__dict__:
                # A protocol among the bases declares the method without defining it.
                return not getattr(base, "_is_protocol", False)
        return False

    @classmethod
    def points(cls) -> tuple[str, ...]:
        """Return the extension points it serves, in kube-scheduler's spelling."""
        return tuple(point for method, point in POINTS.items() if cls.serves(method))
