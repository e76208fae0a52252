"""Moves: which running pods to relocate so that a goal is reached, and where they go.

`scheduler.moves.solver` plans on plain records. The other modules read a cluster, judge plans with
the scheduler's own filters and write reports.
"""
