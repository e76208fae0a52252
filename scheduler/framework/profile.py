"""`Profile`: for each extension point an ordered tuple of bound plugin methods, built once.

`ProfileSpec` is the resolved configuration (names, order, weights); `build_profile` instantiates
it. Each plugin class is instantiated once per profile and bound at the points that it serves.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from scheduler.base.errors import ConfigError, PluginError
from scheduler.framework.args import Args
from scheduler.framework.handle import Handle
from scheduler.framework.plugin import POINTS, Plugin
from scheduler.framework.registry import Registry
from scheduler.objects.pod import Pod


class ListedPlugin(msgspec.Struct, frozen=True):
    """A plugin in the list of one extension point; `weight` applies to score alone."""

    name: str
    weight: int = 0


class ProfileSpec(msgspec.Struct, frozen=True):
    """A profile as configured: `plugins` by point (kube-scheduler's spelling), args by plugin."""

    scheduler_name: str
    plugins: Mapping[str, tuple[ListedPlugin, ...]]
    args: Mapping[str, Args]
    percentage_of_nodes_to_score: int | None = None


class Bound(msgspec.Struct, frozen=True):
    """One plugin at one extension point."""

    name: str
    call: Callable[..., Any]
    plugin: Plugin[Any]
    weight: int = 1

    def is_affected(self, pod: Pod, other: Pod) -> bool:
        """Return whether this plugin has a rule by which `other`, once it is placed, may close
        nodes to `pod`; PluginError.
        """
        if not self.plugin.serves("is_affected"):
            return False
        try:
            return self.plugin.is_affected(pod, other)
        except Exception as error:  # a plugin may raise anything
            raise PluginError(self.name, "IsAffected", str(error)) from error


class Profile(msgspec.Struct, frozen=True):
    """The plugins of one schedulerName; field names are the snake_case extension points."""

    scheduler_name: str
    plugins: Mapping[str, Plugin[Any]]
    pre_enqueue: tuple[Bound, ...] = ()
    less: tuple[Bound, ...] = ()
    pre_filter: tuple[Bound, ...] = ()
    filter: tuple[Bound, ...] = ()
    post_filter: tuple[Bound, ...] = ()
    pre_score: tuple[Bound, ...] = ()
    score: tuple[Bound, ...] = ()
    reserve: tuple[Bound, ...] = ()
    permit: tuple[Bound, ...] = ()
    pre_bind: tuple[Bound, ...] = ()
    bind: tuple[Bound, ...] = ()
    post_bind: tuple[Bound, ...] = ()

    def is_affected(self, pod: Pod, other: Pod) -> bool:
        """Return whether `other`, once it is placed, may close nodes to `pod` by a filter's rule
        about other pods, whatever amounts say; PluginError.
        """
        return any(bound.is_affected(pod, other) for bound in self.filter)

    percentage_of_nodes_to_score: int | None = None


def build_profile(spec: ProfileSpec, registry: Registry, handle: Handle) -> Profile:
    """Instantiate the plugins of `spec`; ConfigError names an unknown plugin."""
    instances: dict[str, Plugin[Any]] = {}
    points: dict[str, tuple[Bound, ...]] = {}
    for method, point in POINTS.items():
        bound = []
        for listed in spec.plugins.get(point, ()):
            if listed.name not in instances:
                instances[listed.name] = _instance(spec, listed.name, registry, handle)
            plugin = instances[listed.name]
            bound.append(Bound(listed.name, getattr(plugin, method), plugin, listed.weight or 1))
        points[method] = tuple(bound)
    return Profile(
        scheduler_name=spec.scheduler_name,
        plugins=instances,
        percentage_of_nodes_to_score=spec.percentage_of_nodes_to_score,
        **points,
    )


def _instance(spec: ProfileSpec, name: str, registry: Registry, handle: Handle) -> Plugin[Any]:
    cls = registry.get(name)
    if cls is None:
        raise ConfigError(f'plugin "{name}" does not exist')
    return cls(spec.args.get(name) or cls.args_type(), handle)
