"""NUMA: pods are placed where the kubelet's topology manager can take them.

`tracker` follows the objects that agents write, `reserving` what they have not seen yet; `filtering`,
`restricted`, `scoring` and `leastnuma` are column arithmetic; `plugin` puts them together.
"""

from scheduler.plugins.numa.args import NodeResourceTopologyMatchArgs
from scheduler.plugins.numa.plugin import NodeResourceTopologyMatch

__all__ = ["NodeResourceTopologyMatch", "NodeResourceTopologyMatchArgs"]
