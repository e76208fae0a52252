"""What kube-apiserver and kube-controller-manager add to objects: defaults, admission, pods of workloads.

Pure functions over plain data, without a store: the sandbox calls them on every write, `simulate` and its
relatives on manifests that no API server has seen. `tests/apiserver/test_workload_pods.py` compares the
result with the real components.
"""
