"""Names of plugins that a file may contain although no plugin of that name exists here.

Four tables: kube-scheduler's own plugins, those behind gates that are off, those it removed, and
former names of current ones. `rename` applies the second and the last; the rest of this package
does not use them.
"""

from typing import Final

import msgspec

from scheduler.config.document import DocumentNode
from scheduler.config.model import (
    KubeSchedulerConfiguration,
    PluginConfig,
    PluginEntry,
    Plugins,
    PluginSet,
    ProfileConfig,
)
from scheduler.config.notices import Notices

# kube-scheduler 1.36: default multiPoint order with weights (0 = no weight set). 1.37 has NodeName
# before NodeUnschedulable, which changes no decision: a pending pod has no node name.
DEFAULT_MULTI_POINT: Final = (
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
    ("NodeDeclaredFeatures", 0),
)
# The plugin that schedules groups: every profile has it, and `disabled` in a file makes it gate
# their pods.
GROUPS: Final = "ClusterTopologyPlacementGroup"
# Trellis's own default plugins, which have no effect until their objects exist: name, weight, and
# the points at which the default set has them. A file that enables one itself gets all its points.
OUR_DEFAULTS: Final = (
    (GROUPS, 0, ("preEnqueue",)),
    ("NodeResourceTopologyMatch", 0, ("preFilter", "filter")),
    ("NetworkOverhead", 5, ("preFilter", "filter", "preScore", "score")),
)
# Their arguments unless a list of the file enables the plugin by name.
OUR_DEFAULT_ARGS: Final = {"NetworkOverhead": {"dependents": "Count", "indirect": "Count"}}
KUBE_SCHEDULER: Final = frozenset(name for name, _ in DEFAULT_MULTI_POINT)
# Plugins behind gates that are off by default: a file may enable them, the entry has no effect.
_GROUPS_PLACED: Final = f"groups are placed by {GROUPS}, in every profile"
WITHOUT_EFFECT: Final = {
    "GangScheduling": _GROUPS_PLACED,
    "TopologyPlacementGenerator": _GROUPS_PLACED,
    "PodGroupPodsCount": _GROUPS_PLACED,
    "DeferredPodScheduling": "a deferred resize of a bound pod evicts no other pod here",
}
REMOVED: Final = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})

# Plugins of scheduler-plugins in files that are built in under another name here, or do not exist.
NOT_HERE: Final = {
    "Coscheduling": "Coscheduling is built in as groups: take it out of the file; its "
    "PodGroups are placed by every profile",
    "CapacityScheduling": "CapacityScheduling does not exist here: take it out of the file, and "
    "use Kueue for quota",
}
OLD_NAMES: Final = {
    "BalancedAllocation": "NodeResourcesBalancedAllocation",
    "NodeResourceTopologyResourceAllocationScore": "NodeResourceTopologyMatch",
    "CheckRiskNodebandwidth": "CheckRiskNodeBandwidth",
}
OLD_ARGS: Final = {"CheckRiskNodeBandwidth": {"RiskThreshold": "riskThreshold"}}


def rename(
    config: KubeSchedulerConfiguration, root: DocumentNode, notices: Notices
) -> KubeSchedulerConfiguration:
    """Replace former names by current ones and drop entries without effect.

    Each change is a notice.
    """
    profiles = [
        _rename_profile(profile, f"profiles[{index}]", root, notices)
        for index, profile in enumerate(config.profiles)
    ]
    return msgspec.structs.replace(config, profiles=profiles)


def _rename_profile(
    profile: ProfileConfig, path: str, root: DocumentNode, notices: Notices
) -> ProfileConfig:
    sets: dict[str, PluginSet] = {}
    for field in msgspec.structs.fields(Plugins):
        plugin_set: PluginSet = getattr(profile.plugins, field.name)
        where = f"{path}.plugins.{field.encode_name}"
        sets[field.name] = PluginSet(
            enabled=_rename_list(plugin_set.enabled, f"{where}.enabled", notices),
            disabled=_rename_list(plugin_set.disabled, f"{where}.disabled", notices),
        )
    plugin_config = []
    for index, entry in enumerate(profile.plugin_config):
        where = f"{path}.pluginConfig[{index}]"
        name = _today(entry.name, f"{where}.name", notices)
        _rename_args(name, root.find(f"{where}.args"), f"{where}.args", notices)
        plugin_config.append(PluginConfig(name=name, args=entry.args))
    return msgspec.structs.replace(profile, plugins=Plugins(**sets), plugin_config=plugin_config)


def _rename_list(entries: list[PluginEntry], path: str, notices: Notices) -> list[PluginEntry]:
    kept = []
    for index, entry in enumerate(entries):
        place = f"{path}[{index}].name"
        if entry.name in WITHOUT_EFFECT and path.endswith(".enabled"):
            notices.without_effect(f'the plugin "{entry.name}"', WITHOUT_EFFECT[entry.name], place)
        else:
            kept.append(msgspec.structs.replace(entry, name=_today(entry.name, place, notices)))
    return kept


def _today(name: str, path: str, notices: Notices) -> str:
    if name not in OLD_NAMES:
        return name
    notices.add(f'the plugin "{name}" is called "{OLD_NAMES[name]}" today; read as that', path)
    return OLD_NAMES[name]


def _rename_args(plugin: str, args: DocumentNode | None, path: str, notices: Notices) -> None:
    """Rename keys inside the arguments' tree, which the plugin's struct decodes later."""
    if args is None or not isinstance(args.value, dict):
        return
    for old, new in OLD_ARGS.get(plugin, {}).items():
        if old in args.value and new not in args.value:
            notices.add(
                f'the argument "{old}" is called "{new}" today; read as that', f"{path}.{old}"
            )
            args.value[new] = args.value.pop(old)
            args.keys[new] = args.keys.pop(old)
