"""A profile of the file → `ProfileSpec`: its plugins by point, with weights and arguments.

Reports, with kube-scheduler's texts, the problems that kube-scheduler finds when it builds its
profiles. Called after decode, defaults and validation.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from scheduler.base.text import did_you_mean
from scheduler.config.decode import decode
from scheduler.config.defaults import sampled
from scheduler.config.document import DocumentNode
from scheduler.config.merge import ListProblem, expand
from scheduler.config.model import (
    GROUP,
    Extender,
    KubeSchedulerConfiguration,
    Plugins,
    ProfileConfig,
)
from scheduler.config.names import GROUPS, KUBE_SCHEDULER, NOT_HERE, OUR_DEFAULT_ARGS
from scheduler.config.notices import Notices
from scheduler.config.problems import Problems, ReadingStep
from scheduler.config.validate import CHECKED_AT_START, aggregate
from scheduler.framework.args import Args
from scheduler.framework.profile import ListedPlugin, ProfileSpec
from scheduler.framework.registry import Registry

STARTING = "initializing profiles: "


def decode_args(
    profile: ProfileConfig,
    path: str,
    root: DocumentNode | None,
    registry: Registry,
    problems: Problems,
) -> dict[str, Args]:
    """Return the strictly decoded arguments of known plugins in the file, and our own defaults."""
    found: dict[str, Args] = {}
    usual = _default_args(profile)
    for index, entry in enumerate(profile.plugin_config):
        cls = registry.get(entry.name)
        where = f"{path}.pluginConfig[{index}]"
        node = root.find(f"{where}.args") if root else None
        if cls is None or entry.name in found:
            continue
        if node is None or node.value is None:
            found[entry.name] = msgspec.convert(usual.get(entry.name, {}), cls.args_type)
            continue
        context = f"decoding {where}: decoding args for plugin {entry.name}: "
        _check_type(node, entry.name, context, problems)
        given = _with_defaults(_without_type(node), usual.get(entry.name, {}))
        args = decode(given, cls.args_type, problems, context=context)
        found[entry.name] = args if args is not None else cls.args_type()
    for name, values in usual.items():
        cls = registry.get(name)
        if cls is not None and name not in found:
            found[name] = msgspec.convert(values, cls.args_type)
    return found


def _default_args(profile: ProfileConfig) -> dict[str, Mapping[str, Any]]:
    """Return the arguments of our default plugins unless the file sets them.

    A file that enables one of them by name was written for that plugin's own defaults.
    """
    named = set(_all_names(profile.plugins))
    return {name: values for name, values in OUR_DEFAULT_ARGS.items() if name not in named}


def _with_defaults(node: DocumentNode, values: Mapping[str, Any]) -> DocumentNode:
    """Return arguments with `values` for the fields that the file does not set."""
    if not values or not isinstance(node.value, dict):
        return node
    more = {key: value for key, value in values.items() if key not in node.value}
    whole = DocumentNode(
        node.value | {key: DocumentNode(value, node.at) for key, value in more.items()}, node.at
    )
    whole.keys = dict.fromkeys(more, node.at) | node.keys
    return whole


def _check_type(node: DocumentNode, plugin: str, context: str, problems: Problems) -> None:
    """Reject `apiVersion` and `kind` inside args if they are another plugin's."""
    if not isinstance(node.value, dict):
        return
    kind, version = node.value.get("kind"), node.value.get("apiVersion")
    if kind is not None and kind.value != f"{plugin}Args":
        text = f'{context}expected kind "{plugin}Args", got "{kind.value}"'
        problems.add(ReadingStep.DECODE, text, node.keys["kind"])
    if version is not None and not str(version.value).startswith(f"{GROUP}/"):
        text = f'{context}expected an apiVersion of {GROUP}, got "{version.value}"'
        problems.add(ReadingStep.DECODE, text, node.keys["apiVersion"])


def _without_type(node: DocumentNode) -> DocumentNode:
    if not isinstance(node.value, dict):
        return node
    bare = DocumentNode(
        {k: v for k, v in node.value.items() if k not in ("kind", "apiVersion")}, node.at
    )
    bare.keys = node.keys
    return bare


class ProfileBuilder:
    """Builds all profiles of one configuration; collects problems in kube-scheduler's order."""

    def __init__(self, config: KubeSchedulerConfiguration, registry: Registry) -> None:
        self.config = config
        self.registry = registry
        self.problems: list[ListProblem] = []
        self._queue_sort: tuple[str, Any] | None = None

    def build(
        self, merged: Sequence[Plugins], args: Sequence[Mapping[str, Args]]
    ) -> tuple[ProfileSpec, ...]:
        """Return the profiles; those with problems are left out."""
        specs = []
        for index, profile in enumerate(self.config.profiles):
            found = len(self.problems)
            spec = self._profile(profile, f"profiles[{index}]", merged[index], args[index])
            if len(self.problems) == found:
                specs.append(spec)
        return tuple(specs)

    def _profile(
        self, profile: ProfileConfig, path: str, merged: Plugins, given: Mapping[str, Args]
    ) -> ProfileSpec:
        name = profile.scheduler_name or ""
        lists, wrong = expand(merged, self.registry)
        gated = self._gate_groups(lists) if not wrong else ()
        needed = dict.fromkeys((*_all_names(merged), *gated))
        args = self._complete_args(needed, given)
        for plugin in gated:
            args[plugin] = msgspec.structs.replace(args[plugin], schedule_groups=False)
        context = f"{STARTING}creating profile for scheduler name {name}: "
        self._check_args(needed, args, profile, path, context)
        wrong.extend(_whole(name, lists) if not wrong else ())
        for problem in wrong:
            place = _place(problem, profile, path)
            self.problems.append(ListProblem(context + problem.text, place, problem.plugin))
        if not wrong:
            self._same_queue_sort(name, lists, args, path)
        running = {listed.name for entries in lists.values() for listed in entries}
        return ProfileSpec(
            scheduler_name=name,
            plugins=lists,
            args={name: args[name] for name in args if name in running},
            percentage_of_nodes_to_score=self._percentage(profile),
        )

    def _gate_groups(self, lists: dict[str, tuple[ListedPlugin, ...]]) -> tuple[str, ...]:
        """Restore the plugin that gates pods of groups where a file disables it.

        Return its name.
        """
        listed = lists["preEnqueue"]
        if GROUPS not in self.registry or any(one.name == GROUPS for one in listed):
            return ()
        lists["preEnqueue"] = (*listed, ListedPlugin(GROUPS))
        return (GROUPS,)

    def _complete_args(
        self, needed: Mapping[str, Any], given: Mapping[str, Args]
    ) -> dict[str, Args]:
        """Return the arguments of every enabled plugin: as set, else its defaults."""
        args: dict[str, Args] = {}
        for name in needed:
            cls = self.registry.get(name)
            if cls is not None:
                args[name] = given.get(name) or cls.args_type()
        if "NodeResourcesFit" in args:
            args["NodeResourcesFit"] = _ignoring(args["NodeResourcesFit"], self.config.extenders)
        return args

    def _check_args(
        self,
        needed: Mapping[str, Any],
        args: Mapping[str, Args],
        profile: ProfileConfig,
        path: str,
        context: str,
    ) -> None:
        for name in needed:
            if name not in CHECKED_AT_START or name not in args:
                continue
            faults = list(args[name].validate())
            if faults:
                text = f'{context}initializing plugin "{name}": {aggregate(faults)}'
                index = next(i for i, e in enumerate(profile.plugin_config) if e.name == name)
                place = f"{path}.pluginConfig[{index}].args.{faults[0][0]}"
                self.problems.append(ListProblem(text, place, name))

    def _same_queue_sort(
        self,
        name: str,
        lists: Mapping[str, tuple[ListedPlugin, ...]],
        args: Mapping[str, Args],
        path: str,
    ) -> None:
        """Report profiles with different queue sorts: all profiles share one queue."""
        sort = lists["queueSort"][0].name
        own = (sort, msgspec.to_builtins(args[sort]))
        if self._queue_sort is None:
            self._queue_sort = own
        elif self._queue_sort[0] != sort:
            first = self._queue_sort[0]
            text = f'different queue sort plugins for profile "{name}": "{sort}", first: "{first}"'
            self.problems.append(ListProblem(STARTING + text, f"{path}.plugins", sort))
        elif self._queue_sort != own:
            text = f'different queue sort plugin args for profile "{name}"'
            self.problems.append(ListProblem(STARTING + text, f"{path}.pluginConfig", sort))

    def _percentage(self, profile: ProfileConfig) -> int | None:
        own = profile.percentage_of_nodes_to_score
        return sampled(self.config.percentage_of_nodes_to_score if own is None else own)

    def hint(self, problem: ListProblem) -> str:
        """Suggest the plugin that an unknown name may mean."""
        is_known = problem.plugin in KUBE_SCHEDULER or problem.plugin in NOT_HERE
        if "does not exist" not in problem.text or is_known:
            return ""
        return did_you_mean(problem.plugin, (*self.registry.names(), *NOT_HERE))


def _all_names(plugins: Plugins) -> Iterator[str]:
    for field in msgspec.structs.fields(Plugins):
        for entry in getattr(plugins, field.name).enabled:
            yield entry.name


def _whole(name: str, lists: Mapping[str, tuple[ListedPlugin, ...]]) -> Iterator[ListProblem]:
    """Yield the problems of a profile as a whole."""
    sorts = len(lists["queueSort"])
    if sorts != 1:
        text = (
            f'only one queue sort plugin required for profile with scheduler name "{name}", '
            f"but got {sorts}"
        )
        yield ListProblem(text, "plugins.queueSort")
    if not lists["bind"]:
        text = f'at least one bind plugin is needed for profile with scheduler name "{name}"'
        yield ListProblem(text, "plugins.bind")


def _place(problem: ListProblem, profile: ProfileConfig, path: str) -> str:
    """Return the path in the file.

    The file's own lists are searched for an entry of the merged list.
    """
    if problem.path.startswith("plugins.multiPoint."):
        for index, entry in enumerate(profile.plugins.multi_point.enabled):
            if entry.name == problem.plugin:
                return f"{path}.plugins.multiPoint.enabled[{index}].name"
    return f"{path}.{problem.path}"


def _ignoring(args: Args, extenders: Sequence[Extender]) -> Args:
    """Add the resources that extenders manage to those that NodeResourcesFit ignores."""
    names = [
        resource.name
        for extender in extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    ]
    if not names:
        return args
    ignored = list(getattr(args, "ignored_resources", ()))
    kind = type(getattr(args, "ignored_resources", []))
    ignored.extend(name for name in names if name not in ignored)
    return msgspec.structs.replace(args, ignored_resources=kind(ignored))


def list_notices(
    profile: ProfileConfig,
    path: str,
    lists: Mapping[str, tuple[ListedPlugin, ...]],
    registry: Registry,
    notices: Notices,
) -> None:
    """Add notices for names in the lists without effect, and for a dangerous omission."""
    for field in msgspec.structs.fields(Plugins):
        for index, entry in enumerate(getattr(profile.plugins, field.name).disabled):
            if entry.name not in registry and entry.name not in KUBE_SCHEDULER | {"*"}:
                hint = did_you_mean(entry.name, registry.names())
                place = f"{path}.plugins.{field.encode_name}.disabled[{index}].name"
                notices.add(f'nothing to disable: no plugin is named "{entry.name}"{hint}', place)
    _groups_notice(profile, f"{path}.plugins", registry, notices)
    filters = {listed.name for listed in lists.get("filter", ())}
    if "NodeResourcesFit" in registry and "NodeResourcesFit" not in filters:
        notices.add(
            "the filter of NodeResourcesFit is disabled: "
            "pods are placed on nodes without free capacity",
            f"{path}.plugins",
        )


def _groups_notice(profile: ProfileConfig, path: str, registry: Registry, notices: Notices) -> None:
    """Report the effect of the plugin lists on groups: a name gates their pods, "*" changes
    nothing.
    """
    if GROUPS not in registry or GROUPS in set(_all_names(profile.plugins)):
        return
    for point, given in (
        ("multiPoint", profile.plugins.multi_point),
        ("preEnqueue", profile.plugins.pre_enqueue),
    ):
        for index, entry in enumerate(given.disabled):
            place = f"{path}.{point}.disabled[{index}].name"
            if entry.name == GROUPS:
                text = (
                    f"{GROUPS} is disabled: pods that name a group stay gated, none is placed alone"
                )
                notices.add(text, place)
            elif entry.name == "*":
                text = (
                    f'"*" does not disable {GROUPS}: groups are scheduled; '
                    "name it to gate their pods"
                )
                notices.add(text, place)
