"""What every other package may import: errors, clock, array aliases, text, meters, logs.

A closed list of six modules; nothing here knows Kubernetes, and nothing here does I/O.
"""
