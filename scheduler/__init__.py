"""Trellis, a Kubernetes scheduler: the engine, the daemon, the sandbox and the command line.

pyproject.toml (import-linter) defines the packages and their permitted imports, and
docs/explanation describes them. This package itself owns nothing and re-exports nothing.
"""
