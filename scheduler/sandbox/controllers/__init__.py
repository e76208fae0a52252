"""The controllers of a cluster, one per kind, simplified: they use the store and nothing else."""
