"""The cluster in memory, in columns.

Written only by `Cluster`; read by the framework, the engine and, through `ClusterView`, the
operators. Does no I/O and does not depend on plugins.
"""
