"""Solve placement problems with an exact program and CP-SAT; check every answer.

The package imports nothing of Kubernetes. Only the helper process of scheduler.workers imports it,
so that the daemon never loads ortools.
"""
