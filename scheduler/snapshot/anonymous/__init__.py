"""Snapshots without names: the same structure, with aliases."""
