"""Defaults, admission and controllers: what the control plane adds to objects, as pure functions.

Plain data without a store: the sandbox calls them on every write, `simulate`, `capacity` and
`explain` on manifests that no API server has received. `tests/apiserver/test_workload_pods.py`
compares the result with the real components.
"""
