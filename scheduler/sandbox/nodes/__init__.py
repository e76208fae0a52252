"""Simulated machines, their kubelets and the agents on them."""
