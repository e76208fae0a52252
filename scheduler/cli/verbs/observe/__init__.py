"""Verbs that read a live cluster, or what was recorded of one, and change nothing."""
