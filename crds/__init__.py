"""The custom resource definitions, as package data: `importlib.resources.files("crds")`.

A regular package, because a namespace package has no folder of its own under every kind of install.
"""
