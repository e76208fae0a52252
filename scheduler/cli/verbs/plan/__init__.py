"""Verbs that calculate placements: what fits, where, and after which changes."""
