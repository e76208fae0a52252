"""What goes into the engine and what comes out: plain, serialisable records.

Events are facts from outside (a watched object, an answer); effects are requests to the outside
(bind, write a condition). The engine never performs an effect itself, and an effect that wants an
answer carries an `id` under which the answer comes back as an event. A decision log is nothing but
these records in order.
"""

from typing import Any

import msgspec

from scheduler.framework.calls import Offer
from scheduler.objects.pod import PodCondition


class Event(msgspec.Struct, frozen=True, tag_field="event", rename="camel", omit_defaults=True):
    """Base of everything that goes into the engine."""


class Watched(Event, frozen=True, tag="Watched"):
    """One object was added, modified or deleted; `object` is the struct of its kind."""

    kind: str
    verb: str
    object: Any


class Listed(Event, frozen=True, tag="Listed"):
    """All objects of a kind as a list call returned them: what is not in it is gone.

    A kind that the API server does not offer comes as an empty list, and so does one that this
    process may not list (`is_denied`).
    """

    kind: str
    objects: tuple[Any, ...] = ()
    is_denied: bool = False


class Complete(Event, frozen=True, tag="Complete"):
    """A list that came object by object is over: what we know and `keys` does not name is gone.

    Keys are uids for pods, `namespace/name` or `name` for everything else. A `Listed` that is too
    long for one turn of the loop is handed on in this form.
    """

    kind: str
    keys: tuple[str, ...] = ()
    is_denied: bool = False


class Behind(Event, frozen=True, tag="Behind"):
    """What we know of a kind may be older than what the API server knows.

    From here on nothing is decided, until a `Listed` or `Complete` of the kind, or `CaughtUp`.
    """

    kind: str


class CaughtUp(Event, frozen=True, tag="CaughtUp"):
    """All changes that the API server had of a kind when it was found `Behind` are emitted."""

    kind: str


class Answer(Event, frozen=True, tag="Answer"):
    """The answer to effect `effect`.

    `code` is the HTTP status; 0 means that the outcome is unknown. `body` is the
    part of the response that the effect asked for.
    """

    effect: int
    code: int
    reason: str = ""
    message: str = ""
    body: Any = None

    @property
    def ok(self) -> bool:
        """Whether the effect happened."""
        return 200 <= self.code < 300


class Leading(Event, frozen=True, tag="Leading"):
    """We have become, or have ceased to be, the leader; only a leader schedules."""

    active: bool


class Effect(msgspec.Struct, frozen=True, tag_field="effect", rename="camel", omit_defaults=True):
    """Base of everything that comes out of the engine."""


# Why a bind was not sent: what it was decided on is not so any more.
OUTDATED = "Outdated"


class Bind(Effect, frozen=True, tag="Bind"):
    """Bind a pod by its binding subresource; idempotent because it carries the pod's uid.

    The sender calls `Engine.objection` before each sending, and answers OUTDATED if there is
    one.
    """

    id: int
    namespace: str
    name: str
    uid: str
    node: str


class Look(Effect, frozen=True, tag="Look"):
    """Read a pod to learn what became of an unanswered bind; the answer's body is a `Seen`."""

    id: int
    namespace: str
    name: str


class Seen(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What `Look` found: the pod's uid and the node it is bound to, if any."""

    uid: str = ""
    node_name: str = ""


class SetStatus(Effect, frozen=True, tag="SetStatus"):
    """Patch a pod's status: its PodScheduled condition, its nomination, or both.

    `nominated_node` None leaves the nomination alone, an empty text clears it. Wants no answer; the
    executor keeps the order per pod and retries.
    """

    namespace: str
    name: str
    uid: str
    condition: PodCondition | None = None
    nominated_node: str | None = None


def longest_eviction_s(victims: int) -> float:
    """Return after how many seconds a preemption with so many victims counts as failed.

    Each takes three requests, and none of a unit is deleted before all are marked: two more seconds
    for every hundred.
    """
    return 60.0 + 2.0 * (victims // 100)


class Evict(Effect, frozen=True, tag="Evict"):
    """Mark a victim of preemption as disrupted, then delete it with its own grace period.

    Victims of one `unit` (0 is none) go together: none is deleted before all `unit_size` are
    marked, and none at all when one cannot be. `generation` is that of the pod as the engine knows
    it; a pod that `is_marked` carries the mark already.
    """

    id: int
    namespace: str
    name: str
    uid: str
    message: str
    unit: int = 0
    unit_size: int = 0
    generation: int = 0
    is_marked: bool = False


class Call(Effect, frozen=True, tag="Call"):
    """A request of a plugin to the API server."""

    id: int
    method: str
    path: str
    content_type: str = "application/json"
    body: Any = None


class AskExtender(Effect, frozen=True, tag="AskExtender"):
    """Ask the extender with this number (in the order they are asked) about a pod.

    `verb` is filter, prioritize, preempt or bind. Nodes and pods go by their names and uids:
    the executor has the whole objects. The answer's body is an `ExtenderAnswer`.
    """

    id: int
    extender: int
    verb: str
    namespace: str
    name: str
    uid: str
    nodes: tuple[str, ...] = ()
    offers: tuple[Offer, ...] = ()


class ExtenderAnswer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The answer of an extender to any verb.

    `nodes` None: it named none at all. `failed` and `unresolvable` are reasons by node name,
    `scores` those of prioritize, `error` its own error message.
    """

    nodes: tuple[str, ...] | None = None
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    scores: tuple[tuple[str, int], ...] = ()
    offers: tuple[Offer, ...] = ()
    error: str = ""


class Solve(Effect, frozen=True, tag="Solve"):
    """Solve an instance in the helper process; the answer's body is the solution as plain data."""

    id: int
    instance: Any
    limit_s: float


class Record(Effect, frozen=True, tag="Record"):
    """Write an event (events.k8s.io/v1); wants no answer and is never dropped.

    It is about a pod, or about the object of another kind that `kind` and `api_version` name.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    scheduler_name: str
    type: str
    reason: str
    action: str
    note: str
    now: float
    related: tuple[str, str, str] | None = None
    kind: str = "Pod"
    api_version: str = "v1"


Effects = Bind | Look | SetStatus | Evict | Call | AskExtender | Solve | Record
