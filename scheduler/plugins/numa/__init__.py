"""NUMA: place pods where the kubelet's topology manager admits them.

`tracker` follows the objects that agents write, `reserving` the pods missing from them;
`filtering`, `restricted`, `scoring` and `leastnuma` are column arithmetic; `plugin` combines them.
"""

from scheduler.plugins.numa.args import NodeResourceTopologyMatchArgs
from scheduler.plugins.numa.plugin import NodeResourceTopologyMatch

__all__ = ["NodeResourceTopologyMatch", "NodeResourceTopologyMatchArgs"]
