"""`Concerns`: which plugins apply to a pod, and the keys by which they treat pods as equivalent.

Most plugins of a profile do not apply to most pods. `Plugin.key` returns None for such pods. It is
called once per shape of pods, and again when an object changed that the plugin reads besides the
pod (`key_follows`). The runner calls only the remaining plugins. Invariant: the result of an
attempt is the same with and without this.
"""

from collections.abc import Hashable, Mapping
from typing import Any

import msgspec

from scheduler.framework.cycle import Cycle
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import EACH_POD, Plugin
from scheduler.framework.profile import Bound, Profile
from scheduler.framework.running.memo import Memo, PodKind

_POINTS = ("pre_filter", "filter", "pre_score", "score", "reserve", "pre_bind")
# The points that determine that a pod fits nowhere and that no preemption is possible for it.
_REFUSING = ("pre_filter", "filter", "post_filter")


class ApplicablePlugins(msgspec.Struct, frozen=True):
    """The plugins to call at the points of an attempt; shared by all pods with the same plugins."""

    pre_filter: tuple[Bound, ...]
    filter: tuple[Bound, ...]
    pre_score: tuple[Bound, ...]
    score: tuple[Bound, ...]
    reserve: tuple[Bound, ...]
    pre_bind: tuple[Bound, ...]
    skip_filtering: frozenset[str]
    skip_scoring: frozenset[str]


class Concern(msgspec.Struct, frozen=True):
    """The plugins to call for a pod, and the pod's key for each plugin that caches answers.

    `versions` are the versions of the data from which the keys were computed. Infeasible pods with
    an equal `rejection_key` are rejected for the same reasons until something changes; it is None
    for a pod that some plugin distinguishes from all others.
    """

    applicable: ApplicablePlugins
    kinds: Mapping[str, PodKind]
    versions: tuple[int, ...]
    rejection_key: Hashable | None = None


class Concerns:
    """The concerns of a profile by shape; without `keeps` every plugin applies to every pod."""

    def __init__(self, profile: Profile, *, keeps: bool = True) -> None:
        self._profile = profile
        self._memo = Memo()
        bound = {bound.name: bound.plugin for point in _POINTS for bound in getattr(profile, point)}
        self._plugins: tuple[Plugin[Any], ...] = tuple(
            plugin
            for plugin in bound.values()
            if keeps and plugin.has_key and _is_whole(profile, plugin)
        )
        self._follows = tuple(one for plugin in self._plugins for one in plugin.key_follows)
        refusing = {b.plugin.name: b.plugin for point in _REFUSING for b in getattr(profile, point)}
        self._refusing = tuple(refusing.values())
        self._has_rejection_key = keeps and all(
            plugin.has_key and _is_whole(profile, plugin) for plugin in self._refusing
        )
        self._applicable: dict[frozenset[str], ApplicablePlugins] = {}
        # The concerns are stored in the shapes, under keys that hold no reference to a pod.
        self._live, self._hypothetical = object(), object()

    def of(self, cycle: Cycle, nodes: Nodes) -> Concern:
        """Return the plugins that apply to a pod.

        On hypothetical nodes a plugin with `key_follows` is always called: the data it reads does
        not include hypothetical pods.
        """
        where, shape = self._live if nodes.is_live else self._hypothetical, cycle.shape
        versions = tuple([one.version for one in self._follows])
        if cycle.pod.spec.node_name:
            return self._made(cycle, versions, is_live=nodes.is_live)  # shapes refer to no node
        concern: Concern | None = shape.derived.get(where)
        if concern is None or concern.versions != versions:
            concern = self._made(cycle, versions, is_live=nodes.is_live)
            shape.derived[where] = concern
        return concern

    def _made(self, cycle: Cycle, versions: tuple[int, ...], *, is_live: bool) -> Concern:
        kinds: dict[str, PodKind] = {}
        absent: list[str] = []
        keys: dict[str, Hashable | None] = {}
        for plugin in self._plugins:
            key = keys[plugin.name] = plugin.key(cycle.pod)
            if key is None:
                if is_live or not plugin.key_follows:
                    absent.append(plugin.name)
            elif key is not EACH_POD:
                kind = self._memo.kind(plugin, key)
                if kind is not None:
                    kinds[plugin.name] = kind
        rejection_key = (
            self._rejection_key(cycle, keys) if is_live and self._has_rejection_key else None
        )
        return Concern(self._who(frozenset(absent)), kinds, versions, rejection_key)

    def _rejection_key(self, cycle: Cycle, known: Mapping[str, Hashable]) -> Hashable | None:
        """Return the scheduling signature of a pod: pods with equal signatures are rejected for the
        same reasons.

        The data that post-filter plugins read besides the keys follows from the spec.
        """
        pod = cycle.pod
        keys = tuple([known[p.name] if p.name in known else p.key(pod) for p in self._refusing])
        return None if EACH_POD in keys else (cycle.shape.spec, keys)

    def _who(self, absent: frozenset[str]) -> ApplicablePlugins:
        applicable = self._applicable.get(absent)
        if applicable is None:
            points = {
                point: tuple(one for one in getattr(self._profile, point) if one.name not in absent)
                for point in _POINTS
            }
            applicable = self._applicable[absent] = ApplicablePlugins(
                **points,
                skip_filtering=absent & _names(self._profile.pre_filter + self._profile.filter),
                skip_scoring=absent & _names(self._profile.pre_score),
            )
        return applicable


def _names(bounds: tuple[Bound, ...]) -> frozenset[str]:
    return frozenset(bound.name for bound in bounds)


def _is_whole(profile: Profile, plugin: Plugin[Any]) -> bool:
    """Return whether a profile enables the points of a plugin that make its state.

    A plugin without these points rejects every pod with a message, as kube-scheduler's do.
    """
    for before in ("pre_filter", "pre_score"):
        after = before.removeprefix("pre_")
        is_at = [plugin in [b.plugin for b in getattr(profile, point)] for point in (before, after)]
        if plugin.serves(before) and is_at == [False, True]:
            return False
    return True
