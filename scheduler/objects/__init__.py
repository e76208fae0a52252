"""Kubernetes objects as frozen msgspec structs, only with the fields that somebody reads.

Decoded straight from watch bytes by scheduler.kube; no behaviour beyond parsing.
"""
