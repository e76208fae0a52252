"""`check_plugin`: the invariants of every plugin, as one call in a plugin's own tests."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from scheduler.testing import laws
from scheduler.testing.hints import wakes
from scheduler.testing.keys import keeps_its_key
from scheduler.testing.samples import Manifest, Samples, usual_samples
from scheduler.testing.scene import PluginClass
from scheduler.testing.trial import Trial

Law = Callable[[Trial], Iterator[str]]

LAWS: tuple[Law, ...] = (
    laws.constructs,
    laws.runs,
    laws.returns_columns,
    laws.writes_nothing,
    laws.repeats_itself,
    laws.ignores_row_order,
    laws.is_local,
    keeps_its_key,
    laws.gives_back,
    laws.tracks,
    laws.sorts_strictly,
    wakes,
)

_MOST_TOLD = 3


class BrokenLawsError(AssertionError):
    """A plugin violates invariants; `broken` has the names of their functions."""

    def __init__(self, plugin: str, broken: Mapping[str, Sequence[str]]) -> None:
        lines = [f"{plugin} breaks {len(broken)} law(s):"]
        for law, problems in broken.items():
            lines += [f"  {law}: {problem}" for problem in problems]
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
    for law in LAWS:
        problems = list(islice(law(trial), _MOST_TOLD))
        if problems:
            broken[law.__name__] = problems
        if problems and law is laws.constructs:
            break  # the others need a plugin that can be constructed
    if broken:
        raise BrokenLawsError(plugin.name, broken)
