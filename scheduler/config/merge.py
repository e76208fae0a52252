"""Plugin lists: merge a profile's lists into the defaults, then expand them to the extension
points.

The rules are exactly kube-scheduler's: `merge` keeps the order of the default list and lets an
entry of the same name replace it in place; `expand` puts entries of a point that override
multiPoint first, then the multiPoint entries, then the rest. Problems are texts with the path of
their cause; the caller adds position and context.

Trellis's own default plugins are part of the default multiPoint list and follow the same rules,
with one exception: `disabled: "*"` keeps the plugin that schedules groups. A file that lists its
plugins after "*" predates groups, and a pod of a group must never be placed alone.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from scheduler.config.model import PluginEntry, Plugins, PluginSet
from scheduler.config.names import (
    DEFAULT_MULTI_POINT,
    GROUPS,
    KUBE_SCHEDULER,
    NOT_HERE,
    OUR_DEFAULTS,
)
from scheduler.framework.plugin import POINTS
from scheduler.framework.profile import ListedPlugin
from scheduler.framework.registry import Registry

# The order in which kube-scheduler checks its points: it reports the first mistake.
POINT_ORDER: Final = (
    "preFilter",
    "filter",
    "postFilter",
    "podGroupPostFilter",
    "reserve",
    "preScore",
    "score",
    "preBind",
    "bind",
    "postBind",
    "permit",
    "preEnqueue",
    "queueSort",
    "placementGenerate",
    "placementScore",
)
# Points that run only behind gates which are off: accepted for the plugins that serve them there.
_WITHOUT_EFFECT: Final = {
    "placementGenerate": (),
    "placementScore": ("NodeResourcesFit",),
    "podGroupPostFilter": ("DynamicResources", "DefaultPreemption"),
}
_METHODS: Final = {point: method for method, point in POINTS.items()}
_FIELDS: Final = {field.encode_name: field.name for field in msgspec.structs.fields(Plugins)}
MAX_NODE_SCORE: Final = 100
MAX_TOTAL_SCORE: Final = 2**63 - 1


class ListProblem(msgspec.Struct, frozen=True):
    """A mistake in the lists; `path` is relative to the profile."""

    text: str
    path: str = "plugins"
    plugin: str = ""


class DefaultEntry(PluginEntry, frozen=True):
    """An entry of the default multiPoint list that serves only some of its plugin's points."""

    points: tuple[str, ...] = ()


def default_plugins(registry: Registry) -> Plugins:
    """Return the default set of every profile, limited to the plugins in the registry."""
    kubes = [PluginEntry(name=name, weight=weight or None) for name, weight in DEFAULT_MULTI_POINT]
    ours = [
        DefaultEntry(name=name, weight=weight or None, points=points)
        for name, weight, points in OUR_DEFAULTS
    ]
    known = [entry for entry in (*kubes, *ours) if entry.name in registry]
    return Plugins(multi_point=PluginSet(enabled=known))


def point_set(plugins: Plugins, point: str) -> PluginSet:
    """Return the lists of one point, by its name in files."""
    found: PluginSet = getattr(plugins, _FIELDS[point])
    return found


def merge(default: Plugins, custom: Plugins) -> Plugins:
    """Merge `custom` on `default`, point by point."""
    return Plugins(
        **{
            name: _merge_set(getattr(default, name), getattr(custom, name))
            for name in _FIELDS.values()
        }
    )


def _merge_set(default: PluginSet, custom: PluginSet) -> PluginSet:
    disabled = [PluginEntry(name=entry.name) for entry in (*custom.disabled, *default.disabled)]
    gone = {entry.name for entry in disabled}
    # Of two entries with one name the last replaces the default; the other one stays and is
    # rejected later as a duplicate.
    last = {entry.name: index for index, entry in enumerate(custom.enabled)}
    enabled: list[PluginEntry] = []
    replaced: set[int] = set()
    for entry in default.enabled:
        if entry.name in gone or ("*" in gone and entry.name != GROUPS):
            continue
        if entry.name in last:
            replaced.add(last[entry.name])
            enabled.append(custom.enabled[last[entry.name]])
        else:
            enabled.append(entry)
    enabled.extend(e for index, e in enumerate(custom.enabled) if index not in replaced)
    return PluginSet(enabled=enabled, disabled=disabled)


def expand(
    plugins: Plugins, registry: Registry
) -> tuple[dict[str, tuple[ListedPlugin, ...]], list[ListProblem]]:
    """Return the plugins of every point in call order with their weights, or the problems."""
    problems = list(_check_lists(plugins, registry))
    if problems:
        return {}, problems
    weights = _weights(plugins, registry)
    lists: dict[str, tuple[ListedPlugin, ...]] = {}
    for point in POINTS.values():
        names = _order(plugins, point, registry)
        lists[point] = tuple(
            ListedPlugin(name, weights[name] if point == "score" else 0) for name in names
        )
    if sum(weights.values()) * MAX_NODE_SCORE > MAX_TOTAL_SCORE:
        text = "score plugins: total score of Score plugins could overflow"
        problems.append(ListProblem(text, "plugins.score"))
    return lists, problems


def interface(point: str) -> str:
    """Return kube-scheduler's interface name for the plugins of a point."""
    return f"{point[0].upper()}{point[1:]}Plugin"


def serves(cls: Any, point: str) -> bool:
    """Return whether a plugin class has the point, by its name in files."""
    if point in _WITHOUT_EFFECT:
        return cls.name in _WITHOUT_EFFECT[point]
    return bool(cls.serves(_METHODS[point]))


def _check_lists(plugins: Plugins, registry: Registry) -> Iterator[ListProblem]:
    """Yield mistakes in kube-scheduler's order: every point's own list, then multiPoint."""
    for point in POINT_ORDER:
        seen: set[str] = set()
        for index, entry in enumerate(point_set(plugins, point).enabled):
            path = f"plugins.{point}.enabled[{index}].name"
            cls = registry.get(entry.name)
            if cls is None:
                yield _unknown(entry.name, point, path)
            elif not serves(cls, point):
                text = f'plugin "{entry.name}" does not extend {interface(point)} plugin'
                yield ListProblem(text, path, entry.name)
            elif entry.name in seen:
                yield _twice(entry.name, point, path)
            seen.add(entry.name)
    yield from _check_multi_point(plugins, registry)


def _check_multi_point(plugins: Plugins, registry: Registry) -> Iterator[ListProblem]:
    open_points = [
        point
        for point in POINT_ORDER
        if all(entry.name != "*" for entry in point_set(plugins, point).disabled)
    ]
    seen: set[str] = set()
    for entry in plugins.multi_point.enabled:
        cls = registry.get(entry.name)
        path = f"plugins.multiPoint.{entry.name}"
        if cls is None:
            if open_points:
                yield _unknown(entry.name, open_points[0], path)
        elif entry.name in seen:
            for point in open_points:
                own = point_set(plugins, point)
                named = {e.name for e in (*own.enabled, *own.disabled)}
                if serves(cls, point) and entry.name not in named:
                    yield _twice(entry.name, point, path)
                    break
        seen.add(entry.name)


def _unknown(name: str, point: str, path: str) -> ListProblem:
    if name in KUBE_SCHEDULER:
        text = (
            f'plugin "{name}" is one of kube-scheduler\'s that does not exist here yet; '
            "take it out of the enabled list to go on without it"
        )
        return ListProblem(text, path, name)
    if name in NOT_HERE:
        return ListProblem(NOT_HERE[name], path, name)
    return ListProblem(f'{interface(point)} "{name}" does not exist', path, name)


def _twice(name: str, point: str, path: str) -> ListProblem:
    return ListProblem(f'plugin "{name}" already registered as "{interface(point)}"', path, name)


def _order(plugins: Plugins, point: str, registry: Registry) -> list[str]:
    own = point_set(plugins, point)
    specific = [entry.name for entry in own.enabled]
    disabled = {entry.name for entry in own.disabled}
    multi = [
        entry.name
        for entry in plugins.multi_point.enabled
        if entry.name not in disabled
        and ("*" not in disabled or entry.name == GROUPS)
        and _serves_at(registry, entry, point)
    ]
    if "*" in disabled:
        return list(dict.fromkeys((*specific, *multi)))
    # "*" at multiPoint keeps GROUPS there: a list written out in full must keep its order.
    overruling = [name for name in specific if name in multi and name != GROUPS]
    added = list(dict.fromkeys(name for name in multi if name not in specific))
    rest = [name for name in specific if name not in overruling]
    return overruling + added + rest


def _serves_at(registry: Registry, entry: PluginEntry, point: str) -> bool:
    """Return whether an entry of the multiPoint list enables its plugin at a point."""
    is_left_out = isinstance(entry, DefaultEntry) and point not in entry.points
    return not is_left_out and _has(registry, entry.name, point)


def _has(registry: Registry, name: str, point: str) -> bool:
    cls = registry.get(name)
    return cls is not None and serves(cls, point)


def _weights(plugins: Plugins, registry: Registry) -> dict[str, int]:
    """Return the weight of every score plugin: its own entry's, else multiPoint's, else 1."""
    weights: dict[str, int] = {}
    for entry in (*plugins.score.enabled, *plugins.multi_point.enabled):
        if entry.name not in weights and _has(registry, entry.name, "score"):
            weights[entry.name] = entry.weight or 1
    return weights
