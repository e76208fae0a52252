"""The engine: events in, effects out, no I/O.

Owns the queues and the scheduling cycle. Driven alike by the daemon, simulate, explain and tests.
"""
