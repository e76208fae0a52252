"""What every other room may use: errors, clock, array aliases, text, meters, logs.

A closed list of six modules; nothing here knows Kubernetes, and nothing here does I/O.
"""
