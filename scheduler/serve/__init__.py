"""HTTP endpoints of the daemon: health, metrics, debug dumps and the page.

Renders records made elsewhere; no handler computes.
"""
