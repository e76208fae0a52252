"""Pods that wait: active, backing off, unschedulable, gated, and what wakes them."""
