"""Sakkara: whole groups placed in a tree of racks and nodes, all or nothing."""

from scheduler.plugins.groups.plugin import ClusterTopologyPlacementGroup

__all__ = ["ClusterTopologyPlacementGroup"]
