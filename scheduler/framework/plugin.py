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
        MemberConflict,
        MemberDemand,
        RowRoom,
        SeatedMember,
        Ways,
    )
    from scheduler.objects.pod import Pod
    from scheduler.state.change import Change
    from scheduler.state.podindex import Placed

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


class Versioned(Protocol):
    """Something that keys are drawn from; `version` moves with each change of it.

    What `handle.objects(kind)` returns is one; trackers may have such parts. Equal versions stand for
    equal keys.
    """

    @property
    def version(self) -> int:
        """Return a number that is another one after each change that matters to a key."""


class _EachPod:
    """The key of pods that are like no other."""

    def __repr__(self) -> str:
        return "EACH_POD"


# What `Plugin.key` returns for a pod that the plugin is asked about anew in every attempt.
EACH_POD: Final = _EachPod()


class Plugin(Generic[ArgsT]):
    """Base of all plugins.

    `reads` names the facts it looks at (scheduler.state.facts): they wake the pods it rejected, and end
    what is kept of its answers. `local` says that its verdict on a row depends on that row and the
    pod alone: such a filter can be asked about hypotheticals and about single rows, and its state then
    holds no column that goes by rows. `normalize` is "none" (raw scores are within 0..100), "max"
    (highest raw score becomes 100), "reverse" (lowest raw score becomes 100) or a method
    `(cycle, nodes, raw) -> column`. When a profile disables
    `pre_filter` or `pre_score`, the state is made when it is needed; `unread` has, by the method that
    is missing, why a plugin cannot work then, as many of kube-scheduler's do not.
    `key_follows`, set by an instance, is what `key` looks at beside the pod. `hinted(change)`
    returns the uids of the only waiting pods to which `hint` may say yes, or None for any: for a plugin without a
    key, of which many pods may wait. `chances(change, names)` returns what there may be of these at most after a change,
    by the least priority for which that holds, or None for anything: where `needs(key)`, amounts by name, is within none
    of them, `hint` says no to pods of this key.
    """

    name: ClassVar[str] = ""
    args_type: ClassVar[type[Args]] = NoArgs
    reads: ClassVar[tuple[str, ...]] = ()
    local: ClassVar[bool] = False
    unread: ClassVar[Mapping[str, str]] = {}
    normalize: Any = "none"
    key_follows: tuple[Versioned, ...] = ()

    # Whether it has a key, and whether the state of pre-filter (of pre-filter or pre-score) is passed on.
    has_key: ClassVar[bool] = False
    takes_state: ClassVar[bool] = False
    takes_score_state: ClassVar[bool] = False

    if TYPE_CHECKING:
        # Shapes only: subclasses define the points they serve, and mypy holds them to these. Where a
        # state may come last, there are two: `framework.points` ties it to what makes it.
        pre_enqueue: "Callable[[Pod], Status | None]"
        less: Callable[[Any, Any], bool]
        hint: "Callable[[Change, Pod], bool]"
        hinted: "Callable[[Change], Collection[str] | None]"
        needs: "Callable[[Any], Sequence[tuple[str, int]]]"
        chances: "Callable[[Change, Iterable[str]], Sequence[tuple[int, Mapping[str, int]]] | None]"
        pre_filter: "Callable[[Cycle, Nodes], Any]"
        filter: "Callable[[Cycle, Nodes], Rejected | None]| Callable[[Cycle, Nodes, Any], Rejected | None]"
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
        figures: "Callable[[Cycle, str], tuple[str, ...]]"
        row_room: "Callable[[Cycle, Nodes, MemberDemand, Any], RowRoom]"
        seat_together: "Callable[[Sequence[SeatedMember]], MemberConflict | None]"
        let_go: "Callable[[Sequence[Pod]], tuple[ApiCall, ...]]"
        unbounded: "Callable[[Nodes, Iterable[str]], Mapping[str, BoolColumn]]"
        ways: "Callable[[Pod, Rows], Ways | None]"
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
        """Return equal keys for pods that `filter` and `score` treat alike; None for one not concerned.

        What these say of a row then depends on the key, the row (all rows, if not `local`) and the
        facts in `reads` alone: not on the time, on `nodes.feasible`, or on trackers that follow other
        facts; `hint` is asked once for waiting pods of one key and priority. It is kept and brought up to date from pod to pod. None skips the plugin at all
        points but `permit` and `post_bind`; its `pre_filter` and `pre_score` must say Skip of such pods
        themselves, too, as they may be asked about hypothetical nodes. The key follows from the pod's
        shape (spec without the node's name, labels, namespace, controller) and from `key_follows`.
        `EACH_POD`, the default, keeps nothing.
        """
        del pod
        return EACH_POD

    @classmethod
    def serves(cls, method: str) -> bool:
        """Whether the plugin overrides the extension point `method` (snake_case)."""
        for base in cls.__mro__:
            if method in base.__dict__:
                # A protocol among the bases promises the method, and does not define it.
                return not getattr(base, "_is_protocol", False)
        return False

    @classmethod
    def points(cls) -> tuple[str, ...]:
        """Return the extension points it serves, in kube-scheduler's spelling."""
        return tuple(point for method, point in POINTS.items() if cls.serves(method))
