"""Kubernetes objects as frozen msgspec structs, only with the fields that Trellis reads.

Decoded directly from watch bytes by scheduler.kube; no behaviour beyond parsing.
"""
