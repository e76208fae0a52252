"""The in-tree plugins: one file per ordinary plugin, one folder per family.

Families never import one another; joint objectives are part of the framework.
"""
