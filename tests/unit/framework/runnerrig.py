"""A few nodes and a runner for plugins made on the spot."""

import types
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from scheduler.engine.handle import EngineHandle
from scheduler.framework.args import NoArgs
from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import Plugin
from scheduler.framework.profile import ProfileSpec, build_profile
from scheduler.framework.registry import Registry
from scheduler.framework.running.answers import States
from scheduler.framework.running.runner import Runner
from scheduler.objects.pod import Pod
from scheduler.state.cluster import Cluster
from tests.property.making import make_node, make_pod
from tests.property.tinyplugins import spec_of


def made(name: str, **members: Any) -> type[Plugin[Any]]:
    """Return a plugin class with these methods."""
    return types.new_class(name, (Plugin[NoArgs],), exec_body=lambda body: body.update(members))


class RunnerRig:
    """Nodes `n0`…, the runner of some plugin classes, and the states of one attempt."""

    def __init__(
        self,
        *classes: type[Plugin[Any]],
        nodes: int = 3,
        points: Mapping[str, Sequence[str]] | None = None,
        pod: Pod | None = None,
    ) -> None:
        self.cluster = Cluster()
        for number in range(nodes):
            self.cluster.put_node(make_node(f"n{number}", labels={"number": str(number)}))
        spec = spec_of(*classes)
        if points is not None:
            # Only these points keep their plugins, and only the ones named there.
            kept = {
                point: tuple(one for one in listed if one.name in points[point])
                for point, listed in spec.plugins.items()
                if point in points
            }
            spec = ProfileSpec(spec.scheduler_name, kept, {})
        handle = EngineHandle(self.cluster, {})
        self.profile = build_profile(spec, Registry(classes), handle)
        self.runner = Runner(self.profile)
        self.states = States()
        self.pod = pod or make_pod("p")
        self.nodes = Nodes(self.cluster.table, self.cluster.pods)
        self.cycle = Cycle(self.pod, self.cluster.shapes.of(self.pod), 0.0, Random(0))

    def plugin(self, cls: type[Plugin[Any]]) -> Any:
        """Return the instance of a class."""
        return self.profile.plugins[cls.name]

    def rows(self, *names: str) -> list[bool]:
        """Return a mask as a list, for comparisons."""
        return [bool(flag) for flag in self.nodes.rows_named(names)]
