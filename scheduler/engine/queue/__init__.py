"""Pods that wait (active, backing off, unschedulable, gated), and the changes that wake them."""
