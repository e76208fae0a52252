"""Counts and lists of pods by row, kept up to date by every change of the cluster."""
