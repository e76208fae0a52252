"""DynamicResources: allocate devices for pods from the resource slices that drivers publish."""

from scheduler.plugins.dynamicresources.args import DynamicResourcesArgs
from scheduler.plugins.dynamicresources.plugin import DynamicResources

__all__ = ["DynamicResources", "DynamicResourcesArgs"]
