"""Questions about a cluster answered without touching it: simulate, explain, diff.

Callers of the same engine as the daemon; no I/O.
"""
