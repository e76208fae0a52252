"""Workloads of a snapshot → the pods that their controllers would create or delete."""
