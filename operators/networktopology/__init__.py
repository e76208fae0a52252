"""The operator of NetworkTopology: keeps the status of every object true.

`status` holds the rules, as pure functions; `operator` gathers, asks them and writes.
"""
