"""`check_plugin`: the invariants of every plugin, as one call in a plugin's own tests."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from scheduler.testing import invariants
from scheduler.testing.hints import wakes
from scheduler.testing.keys import keeps_its_key
from scheduler.testing.samples import Manifest, Samples, usual_samples
from scheduler.testing.scene import PluginClass
from scheduler.testing.trial import Trial

Invariant = Callable[[Trial], Iterator[str]]

INVARIANTS: tuple[Invariant, ...] = (
    invariants.constructs,
    invariants.runs,
    invariants.returns_columns,
    invariants.writes_nothing,
    invariants.repeats_itself,
    invariants.ignores_row_order,
    invariants.is_local,
    keeps_its_key,
    invariants.gives_back,
    invariants.tracks,
    invariants.sorts_strictly,
    wakes,
)

_MOST_PROBLEMS = 3


class BrokenLawsError(AssertionError):
    """A plugin violates invariants; `broken` has the names of their functions."""

    def __init__(self, plugin: str, broken: Mapping[str, Sequence[str]]) -> None:
        lines = [f"{plugin} violates {len(broken)} invariant(s):"]
        for invariant, problems in broken.items():
            lines += [f"  {invariant}: {problem}" for problem in problems]
        super().__init__("\n".join(lines))
        self.broken = tuple(broken)


def check_plugin(
    plugin: PluginClass,
    *,
    args: Mapping[str, Any] | None = None,
    nodes: Sequence[Manifest] = (),
    pods: Sequence[Manifest] = (),
    existing_pods: Sequence[Manifest] = (),
    namespaces: Sequence[Manifest] = (),
    objects: Sequence[Manifest] = (),
) -> None:
    """Test a plugin class on sample objects and raise BrokenLawsError if it violates an invariant.

    The usual samples differ in all fields that kube-scheduler's own plugins read. Pass further
    manifests that make this plugin reject some nodes and prefer others; `pods` are those to be
    placed.
    """
    given = Samples(nodes, pods, existing_pods, namespaces, objects)
    trial = Trial(plugin, args, usual_samples() + given)
    broken: dict[str, list[str]] = {}
    for invariant in INVARIANTS:
        problems = list(islice(invariant(trial), _MOST_PROBLEMS))
        if problems:
            broken[invariant.__name__] = problems
        if problems and invariant is invariants.constructs:
            break  # the others need a plugin that can be constructed
    if broken:
        raise BrokenLawsError(plugin.name, broken)
