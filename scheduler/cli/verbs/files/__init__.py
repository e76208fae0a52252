"""Verbs about files and this installation: configurations, older kinds, plugins, the version."""
