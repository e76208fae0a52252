"""The engine: events in, effects out, no I/O.

Owns the queues and the scheduling cycle. The daemon, simulate, explain and tests drive it in the
same way.
"""
