"""Attempts with extenders."""
