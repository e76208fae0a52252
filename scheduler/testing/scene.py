"""`Scene`: a small cluster in memory with one plugin on it, for `evaluate` and the invariants.

Everything uses the scheduler's own `Cluster`, `Profile` and `Runner`: a plugin cannot distinguish a
scene from the daemon. Nothing here decides anything.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from typing import Any

import msgspec

from scheduler.base.errors import ConfigError, ObjectError
from scheduler.base.release import DEFAULT, read_release
from scheduler.base.text import did_you_mean
from scheduler.config.featuregates.gates import gates_in_effect
from scheduler.engine.handle import EngineHandle
from scheduler.framework.args import Args
from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import POINTS, Plugin
from scheduler.framework.profile import ListedPlugin, ProfileSpec, build_profile
from scheduler.framework.registry import Registry
from scheduler.framework.running.runner import Runner
from scheduler.intree import IN_TREE
from scheduler.objects.kinds import BY_KIND
from scheduler.objects.plain import plain_data, read_as, read_node, read_object, read_pod
from scheduler.objects.pod import Pod
from scheduler.state.change import Change
from scheduler.state.cluster import Cluster
from scheduler.state.counts.tracker import counts_such, hears_of

# A fixed time (2026-01-01T00:00:00Z), so that tests without a time are repeatable.
NOW = 1767225600.0
PROFILE = "trellis"

PluginClass = type[Plugin[Any]]


class Scene:
    """A cluster made from manifests, and one plugin that runs on it."""

    def __init__(
        self,
        plugin: str | PluginClass,
        args: Mapping[str, Any] | Args | None = None,
        feature_gates: Mapping[str, bool] | None = None,
        kubernetes: str = "",
    ) -> None:
        cls = plugin_class(plugin)
        points = tuple(point for method, point in POINTS.items() if cls.serves(method))
        spec = ProfileSpec(
            scheduler_name=PROFILE,
            plugins={point: (ListedPlugin(cls.name),) for point in points},
            args={cls.name: read_args(cls, args)},
        )
        release = read_release(kubernetes, where="kubernetes") if kubernetes else DEFAULT
        gates = gates_in_effect(feature_gates or {}, release)
        self.cluster = Cluster(release)
        self.handle = handle = EngineHandle(
            self.cluster, gates, frozenset((PROFILE,)), release=release
        )
        self.profile = build_profile(spec, Registry((cls,)), handle)
        # A plugin may serve no point at all yet (a class that only declares arguments).
        self.plugin: Any = self.profile.plugins.get(cls.name) or cls(spec.args[cls.name], handle)
        # Results cached for equivalent pods must not replace the plugin's own verdict.
        self.runner = Runner(self.profile, keeps=False)

    def fill(
        self,
        nodes: Iterable[Any] = (),
        existing_pods: Iterable[Any] = (),
        namespaces: Iterable[Any] = (),
        objects: Iterable[Any] = (),
    ) -> None:
        """Add manifests; ObjectError names an invalid one.

        Among `objects`, one without a name gets one.
        """
        for raw in namespaces:
            self.follow(self.cluster.put_object("Namespace", read_as(BY_KIND["Namespace"], raw)))
        for raw in (_with_name(raw, n) for n, raw in enumerate(objects)):
            kind, obj = read_object(raw)
            if kind.kind in ("Pod", "Node"):
                raise ObjectError(f"give it as one of the {kind.plural}", where=kind.kind)
            self.follow(self.cluster.put_object(kind.kind, obj))
        for raw in nodes:
            node = read_node(raw)
            if node.key in self.cluster.table.rows:
                raise ObjectError("there are two of that name", where=f"Node {node.key}")
            with _naming(f"Node {node.key}"):
                self.follow(self.cluster.put_node(node))
        for raw in existing_pods:
            pod = read_pod(raw)
            if not pod.spec.node_name:
                raise ObjectError("spec.nodeName is missing", where=f"Pod {pod.key}")
            if not pod.is_finished:
                with _naming(f"Pod {pod.key}"):
                    self.follow(self.cluster.put_pod(pod))

    def follow(self, change: Change) -> Change:
        """Report a change of the cluster to the plugin's trackers, as the engine does."""
        placed = [one for one in (change.before, change.after) if one is not None]
        for tracker in self.handle.trackers.values():
            if hears_of(tracker, change.kind) and (
                not placed or any(counts_such(tracker, one) for one in placed)
            ):
                tracker.apply(change)
        return change

    def nodes(self) -> Nodes:
        """Return the view that plugins get."""
        return Nodes(self.cluster.table, self.cluster.pods)

    def cycle(self, pod: Pod, now: float | None = None) -> Cycle:
        """Return an attempt for `pod`; its random source always has the same seed."""
        with _naming(f"Pod {pod.key}"):
            shape = self.cluster.shapes.of(pod)
        moment = NOW if now is None else now
        source = Random(0)  # noqa: S311 - for tie-breaks, not for security
        return Cycle(pod=pod, shape=shape, now=moment, random=source, profile=PROFILE)


def plugin_class(plugin: str | PluginClass) -> PluginClass:
    """Return the class of a registered name, or the class itself."""
    if isinstance(plugin, type):
        return plugin
    registry = Registry(IN_TREE)
    found = registry.get(plugin)
    if found is None:
        # Imported here: it reads the metadata of every installed package, 3.5 ms of CPU each time.
        registry.load_entry_points()
        found = registry.get(plugin)
    if found is None:
        raise ConfigError(
            f'plugin "{plugin}" does not exist{did_you_mean(plugin, registry.names())}'
        )
    return found


def _with_name(raw: Any, number: int) -> Any:
    meta = raw.get("metadata", {}) if isinstance(raw, Mapping) else None
    if not isinstance(meta, Mapping) or meta.get("name"):
        return raw
    return {**raw, "metadata": {**meta, "name": f"unnamed-{number}"}}


def read_args(cls: PluginClass, args: Mapping[str, Any] | Args | None) -> Args:
    """Return a plugin's arguments, decoded strictly, cross-field rules included.

    ConfigError names a fault.
    """
    if isinstance(args, Args):
        read = args
    else:
        try:
            read = msgspec.convert(plain_data(args or {}), cls.args_type)
        except msgspec.ValidationError as error:
            raise ConfigError(str(error), where=f"{cls.name} args") from error
    for field, message in read.validate():
        raise ConfigError(f"{field}: {message}", where=f"{cls.name} args")
    return read


@contextmanager
def _naming(where: str) -> Iterator[None]:
    """Add the object's name to an ObjectError."""
    try:
        yield
    except ObjectError as error:
        if error.where:
            raise
        raise ObjectError(error.message, where=where) from error
