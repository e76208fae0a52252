"""Tools for plugin authors: evaluate one plugin, check its laws, play scenarios.

Public and versioned; the project's own vector tests run through it.
"""
