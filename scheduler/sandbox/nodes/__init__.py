"""Simulated machines, their kubelets and their agents."""
