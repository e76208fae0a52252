"""The engine's input and output: plain, serialisable records.

Events are facts from outside (a watched object, an answer). Effects are requests to the outside
(bind, write a condition); the engine performs none of them itself. An effect that needs an answer
carries an `id`, and its answer returns as an event with this id. A decision log consists of these
records in order.
"""

from typing import Any

import msgspec

from scheduler.framework.calls import Offer
from scheduler.objects.pod import PodCondition


class Event(msgspec.Struct, frozen=True, tag_field="event", rename="camel", omit_defaults=True):
    """Base of the engine's inputs."""


class Watched(Event, frozen=True, tag="Watched"):
    """One object was added, modified or deleted; `object` is the struct of its kind."""

    kind: str
    verb: str
    object: Any


class Listed(Event, frozen=True, tag="Listed"):
    """All objects of a kind as a list call returned them; known objects that it lacks are deleted.

    A kind that the API server does not serve, or that this process may not list (`is_denied`), has
    an empty list.
    """

    kind: str
    objects: tuple[Any, ...] = ()
    is_denied: bool = False


class Complete(Event, frozen=True, tag="Complete"):
    """The end of a list whose objects arrived one by one; known objects that `keys` lacks are
    deleted.

    Keys are uids for pods, `namespace/name` or `name` for other kinds. A `Listed` that is too long
    for one turn of the loop is split into this form.
    """

    kind: str
    keys: tuple[str, ...] = ()
    is_denied: bool = False


class Behind(Event, frozen=True, tag="Behind"):
    """The engine's objects of a kind may be older than those of the API server.

    The engine decides nothing until a `Listed` or `Complete` of the kind, or `CaughtUp`, arrives.
    """

    kind: str


class CaughtUp(Event, frozen=True, tag="CaughtUp"):
    """All changes of a kind that the API server had at `Behind` have been emitted."""

    kind: str


class Answer(Event, frozen=True, tag="Answer"):
    """The answer to effect `effect`.

    `code` is the HTTP status; 0 means that the outcome is unknown. `body` is the part of the
    response that the effect requested.
    """

    effect: int
    code: int
    reason: str = ""
    message: str = ""
    body: Any = None

    @property
    def ok(self) -> bool:
        """Return whether the effect was carried out."""
        return 200 <= self.code < 300


class Leading(Event, frozen=True, tag="Leading"):
    """This process became the leader, or ceased to be it; only a leader schedules."""

    active: bool


class Effect(msgspec.Struct, frozen=True, tag_field="effect", rename="camel", omit_defaults=True):
    """Base of the engine's outputs."""


# Why a bind was not sent: the state that the decision was based on has changed.
OUTDATED = "Outdated"
# How long the server may still execute a write whose answer was lost: API servers end a request
# after a minute (--request-timeout).
LATE_S = 65.0


class Bind(Effect, frozen=True, tag="Bind"):
    """Bind a pod by its binding subresource; idempotent because it carries the pod's uid.

    The sender calls `Engine.objection` before each sending. If the engine objects, the answer is
    OUTDATED.
    """

    id: int
    namespace: str
    name: str
    uid: str
    node: str


class Look(Effect, frozen=True, tag="Look"):
    """Read a pod to find the outcome of an unanswered bind; the answer's body is a `Seen`."""

    id: int
    namespace: str
    name: str


class Seen(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The result of `Look`: the pod's uid and the node it is bound to, if any."""

    uid: str = ""
    node_name: str = ""


class SetStatus(Effect, frozen=True, tag="SetStatus"):
    """Patch a pod's status: its PodScheduled condition, its nomination, or both.

    `nominated_node` None keeps the nomination, '' clears it. Has no answer; the executor keeps the
    order per pod and retries.
    """

    namespace: str
    name: str
    uid: str
    condition: PodCondition | None = None
    nominated_node: str | None = None


def longest_eviction_s(victims: int) -> float:
    """Return the seconds after which a preemption of `victims` pods counts as failed.

    Each victim takes three requests, and no victim of a unit is deleted before all are marked: two
    more seconds for every hundred.
    """
    return 60.0 + 2.0 * (victims // 100)


class Evict(Effect, frozen=True, tag="Evict"):
    """Mark a victim of preemption as disrupted, then delete it with its own grace period.

    Victims of one `unit` (0 for none) are deleted together: only after all `unit_size` of them are
    marked. If one cannot be marked, none is deleted. `generation` is that of the pod as the engine
    knows it; `is_marked` states that the pod is already marked.
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
    """Send a request about a pod to the extender with this number (in call order).

    `verb` is filter, prioritize, preempt or bind. Nodes and pods are given by names and uids,
    because the executor has the objects. The answer's body is an `ExtenderAnswer`.
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
    """The response of an extender to a call.

    `nodes` is None if the response has no node list. `failed` and `unresolvable` are reasons by
    node name, `scores` those of prioritize, `error` is the extender's error message.
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
    """Write an event (events.k8s.io/v1); has no answer and is never dropped.

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
