"""Cluster snapshots: read from files or a live cluster, completed, changed, anonymized."""
