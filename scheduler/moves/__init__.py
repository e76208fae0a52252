"""Moves: which running pods to relocate so that a goal is reached, and their destinations.

`scheduler.moves.solver` plans on plain records. The other modules read a cluster, verify plans with
the scheduler's own filters and write reports.
"""
