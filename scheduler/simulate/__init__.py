"""Simulations: the scheduler's own engine on a snapshot, without a cluster."""
