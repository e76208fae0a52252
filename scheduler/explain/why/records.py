"""The records of a why: plain data, whose JSON is part of that of `Explanation`."""

import msgspec


class AskedField(msgspec.Struct, frozen=True):
    """One thing that a pod asks: the `field` that asks it and `text`, which goes on from "no node …".

    What a plugin asks of every pod has the field `plugins.NAME`.
    """

    field: str
    text: str


class SuggestedChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a suggestion: what to do (`change`) to a field of an object.

    `remove` takes the field away, `add` adds `value` to it, `set` gives it `value`, `delete` takes the
    object away, `disable` takes the plugin `value` out of the filters of a profile.
    """

    object: str
    field: str
    change: str
    value: str = ""


class Suggestion(msgspec.Struct, frozen=True):
    """What would make the pod fit, tried by the engine: with these changes it goes to `node`."""

    node: str
    changes: tuple[SuggestedChange, ...]
    text: str


class QueuePlace(msgspec.Struct, frozen=True, rename="camel"):
    """Where a pod stands among all that wait to be tried: 1 is next.

    `waited_seconds` is how long ago the pod was made, None where that is not known.
    """

    place: int
    waiting: int
    waited_seconds: int | None = None


class RunnerUp(msgspec.Struct, frozen=True):
    """The next best node, how many points it is `behind`, and by plugin what made the difference."""

    node: str
    behind: int
    plugins: dict[str, int]


class Why(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The answer in one sentence, and what it rests on.

    `conflict` is the smallest part of what the pod asks that no node satisfies, whatever else it asks;
    `smallest` is False where the search for a smaller one was cut short: then no part of it can go.
    `suggestions` come nearest first. `preemption` is why evicting others does not help, or whom it
    evicts. `woken_by` is what would let the pod be tried again.
    """

    sentence: str
    conflict: tuple[AskedField, ...] = ()
    smallest: bool = True
    suggestions: tuple[Suggestion, ...] = ()
    preemption: str = ""
    woken_by: tuple[str, ...] = ()
    queue: QueuePlace | None = None
    runner_up: RunnerUp | None = None
