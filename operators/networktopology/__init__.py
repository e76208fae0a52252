"""The operator of NetworkTopology: keeps the status of every object up to date.

`status` has the rules, as pure functions; `operator` gathers their inputs and writes the result.
"""
