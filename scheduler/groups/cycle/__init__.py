"""Pods that are decided together, from the queue to the last bind."""
