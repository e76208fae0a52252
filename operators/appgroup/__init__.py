"""The operator of AppGroup: keeps the status of every application group true.

`order` puts workloads in the order of their dependencies, `status` holds the rules; both are pure.
"""
