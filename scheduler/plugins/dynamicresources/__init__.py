"""DynamicResources: devices for pods, allocated from what drivers publish in resource slices."""

from scheduler.plugins.dynamicresources.args import DynamicResourcesArgs
from scheduler.plugins.dynamicresources.plugin import DynamicResources

__all__ = ["DynamicResources", "DynamicResourcesArgs"]
