"""The plugins of this installation: those of Trellis in the order of kube-scheduler's list, then
those of other packages.
"""

from typing import Any

from scheduler.framework import Plugin
from scheduler.framework.registry import Registry
from scheduler.groups.plugin import ClusterTopologyPlacementGroup
from scheduler.plugins.affinity import InterPodAffinity
from scheduler.plugins.defaultbinder import DefaultBinder
from scheduler.plugins.dynamicresources import DynamicResources
from scheduler.plugins.fragmentation import FragmentationAware
from scheduler.plugins.groupsort import QOSSort
from scheduler.plugins.imagelocality import ImageLocality
from scheduler.plugins.loadaware import LoadAwareScheduling
from scheduler.plugins.namespacesort import NamespaceSort
from scheduler.plugins.network import (
    CheckRiskNodeBandwidth,
    LoadVariationRiskBalancing,
    NetworkMinCost,
    NetworkOverhead,
    TopologicalSort,
)
from scheduler.plugins.nodeaffinity import NodeAffinity
from scheduler.plugins.nodedeclaredfeatures import NodeDeclaredFeatures
from scheduler.plugins.nodename import NodeName
from scheduler.plugins.nodeports import NodePorts
from scheduler.plugins.noderesourcesbalanced import NodeResourcesBalancedAllocation
from scheduler.plugins.noderesourcesfit import NodeResourcesFit
from scheduler.plugins.nodeunschedulable import NodeUnschedulable
from scheduler.plugins.numa import NodeResourceTopologyMatch
from scheduler.plugins.preemption import DefaultPreemption
from scheduler.plugins.prioritysort import PrioritySort
from scheduler.plugins.schedulinggates import SchedulingGates
from scheduler.plugins.spread import PodTopologySpread
from scheduler.plugins.tainttoleration import TaintToleration
from scheduler.plugins.volumes import (
    NodeVolumeLimits,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
)

IN_TREE: tuple[type[Plugin[Any]], ...] = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
    LoadAwareScheduling,
    NodeResourceTopologyMatch,
    ClusterTopologyPlacementGroup,
    TopologicalSort,
    QOSSort,
    NamespaceSort,
    NetworkOverhead,
    NetworkMinCost,
    CheckRiskNodeBandwidth,
    LoadVariationRiskBalancing,
    FragmentationAware,
)


def registry() -> Registry:
    """Return a registry of all plugins, also those of entry points.

    ConfigError if two share a name.
    """
    found = Registry(IN_TREE)
    found.load_entry_points()
    return found
