"""Calls the plugins of a profile, point by point, checks and combines their answers."""
