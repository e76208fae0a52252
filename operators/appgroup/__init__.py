"""The operator of AppGroup: keeps the status of every AppGroup up to date.

`order` sorts workloads by their dependencies, `status` computes the status; both are pure.
"""
