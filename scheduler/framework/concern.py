"""`Concerns`: which plugins have to do with a pod, and by which keys they treat pods alike.

Most plugins of a profile have nothing to do with most pods. `Plugin.key` says so, and is asked once per
shape of pods, and again when something moved that the plugin looked at beside the pod
(`key_follows`). The runner asks only those that remain. Law: asked or not, attempts end alike.
"""

from collections.abc import Hashable, Mapping
from typing import Any

import msgspec

from scheduler.framework.cycle import Cycle
from scheduler.framework.memo import Memo, PodKind
from scheduler.framework.nodes import Nodes
from scheduler.framework.plugin import EACH_POD, Plugin
from scheduler.framework.profile import Bound, Profile

_POINTS = ("pre_filter", "filter", "pre_score", "score", "reserve", "pre_bind")
# Where it is found out that a pod fits nowhere, and that nobody may go for it.
_REFUSING = ("pre_filter", "filter", "post_filter")


class AskedPlugins(msgspec.Struct, frozen=True):
    """Who is asked at the points of an attempt; shared by all pods that concern the same plugins."""

    pre_filter: tuple[Bound, ...]
    filter: tuple[Bound, ...]
    pre_score: tuple[Bound, ...]
    score: tuple[Bound, ...]
    reserve: tuple[Bound, ...]
    pre_bind: tuple[Bound, ...]
    skip_filtering: frozenset[str]
    skip_scoring: frozenset[str]


class Concern(msgspec.Struct, frozen=True):
    """Who is asked about a pod, and for plugins that keep answers the kind of the pod.

    `versions` is where what the keys were drawn from stood. Of pods that fit nowhere, those of an equal
    `likeness` are refused alike, as long as nothing changes; None for a pod that some plugin may tell from all
    others.
    """

    asked: AskedPlugins
    kinds: Mapping[str, PodKind]
    versions: tuple[int, ...]
    likeness: Hashable | None = None


class Concerns:
    """The concerns of a profile by shape; without `keeps` every pod concerns every plugin."""

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
        self._refuses_alike = keeps and all(
            plugin.has_key and _is_whole(profile, plugin) for plugin in self._refusing
        )
        self._asked: dict[frozenset[str], AskedPlugins] = {}
        # The concerns live in the shapes, under keys that keep nobody alive.
        self._live, self._hypothetical = object(), object()

    def of(self, cycle: Cycle, nodes: Nodes) -> Concern:
        """Return whom a pod concerns.

        On nodes that are not as they are, a plugin that looks at more than the pod is always asked: what
        it looks at does not know of hypothetical pods.
        """
        where, shape = self._live if nodes.is_live else self._hypothetical, cycle.shape
        versions = tuple([one.version for one in self._follows])
        if cycle.pod.spec.node_name:
            return self._made(cycle, versions, is_live=nodes.is_live)  # shapes know of no node
        concern: Concern | None = shape.kept.get(where)
        if concern is None or concern.versions != versions:
            concern = self._made(cycle, versions, is_live=nodes.is_live)
            shape.kept[where] = concern
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
        likeness = self._likeness(cycle, keys) if is_live and self._refuses_alike else None
        return Concern(self._who(frozenset(absent)), kinds, versions, likeness)

    def _likeness(self, cycle: Cycle, known: Mapping[str, Hashable]) -> Hashable | None:
        """Return what is equal for pods that are refused alike.

        What post-filter plugins look at beside the keys follows from the spec.
        """
        pod = cycle.pod
        keys = tuple([known[p.name] if p.name in known else p.key(pod) for p in self._refusing])
        return None if EACH_POD in keys else (cycle.shape.spec, keys)

    def _who(self, absent: frozenset[str]) -> AskedPlugins:
        asked = self._asked.get(absent)
        if asked is None:
            points = {
                point: tuple(one for one in getattr(self._profile, point) if one.name not in absent)
                for point in _POINTS
            }
            asked = self._asked[absent] = AskedPlugins(
                **points,
                skip_filtering=absent & _names(self._profile.pre_filter + self._profile.filter),
                skip_scoring=absent & _names(self._profile.pre_score),
            )
        return asked


def _names(bounds: tuple[Bound, ...]) -> frozenset[str]:
    return frozenset(bound.name for bound in bounds)


def _is_whole(profile: Profile, plugin: Plugin[Any]) -> bool:
    """Whether a profile leaves a plugin the points that make its state.

    One that has lost them speaks of that to every pod, as kube-scheduler's do.
    """
    for before in ("pre_filter", "pre_score"):
        after = before.removeprefix("pre_")
        is_at = [plugin in [b.plugin for b in getattr(profile, point)] for point in (before, after)]
        if plugin.serves(before) and is_at == [False, True]:
            return False
    return True
