"""Communication with an API server: list and watch, effects, events, leases.

Turns watch bytes into engine events and engine effects into requests; decides nothing.
"""
