"""Workloads of a snapshot → the pods that their controllers would still make, and those they would delete."""
