"""The records of a `Why`: plain data, whose JSON is part of that of `Explanation`."""

import msgspec


class UnmetRequirement(msgspec.Struct, frozen=True):
    """One requirement of a pod: the `field` that states it and `text`, which continues "no node …".

    The field of a plugin's requirement for every pod is `plugins.NAME`.
    """

    field: str
    text: str


class SuggestedChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a suggestion: the `change` of a field of an object.

    `remove` deletes the field, `add` adds `value` to it, `set` sets it to `value`, `delete` deletes
    the object, `disable` removes the plugin `value` from the filters of a profile.
    """

    object: str
    field: str
    change: str
    value: str = ""


class Suggestion(msgspec.Struct, frozen=True):
    """A change with which the pod fits, tried by the engine: it then goes to `node`."""

    node: str
    changes: tuple[SuggestedChange, ...]
    text: str


class QueuePlace(msgspec.Struct, frozen=True, rename="camel"):
    """A pod's position among all pending pods: 1 is next.

    `waited_seconds` is the time since its creation, None if unknown.
    """

    place: int
    waiting: int
    waited_seconds: int | None = None


class RunnerUp(msgspec.Struct, frozen=True):
    """The next best node, how many points it is `behind`, and by plugin what made the
    difference.
    """

    node: str
    behind: int
    plugins: dict[str, int]


class Why(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The answer in one sentence, and its reasons.

    `conflict` is the smallest part of the pod's requirements that no node satisfies, whatever the
    others; `smallest` is False where the search for a smaller one was cut short: then no part of it
    can be left out. `suggestions` come nearest first. `preemption` is why evictions do not help, or
    the victims. `woken_by` are the changes that requeue the pod.
    """

    sentence: str
    conflict: tuple[UnmetRequirement, ...] = ()
    smallest: bool = True
    suggestions: tuple[Suggestion, ...] = ()
    preemption: str = ""
    woken_by: tuple[str, ...] = ()
    queue: QueuePlace | None = None
    runner_up: RunnerUp | None = None
