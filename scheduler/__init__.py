"""Trellis, a Kubernetes scheduler: the engine, the daemon, the sandbox and the command line.

The rooms and who may import whom are drawn in pyproject.toml (import-linter) and explained in
docs/explanation. This package itself owns nothing and re-exports nothing.
"""
