"""Traces of arrivals and ends: read from files, replayed on the virtual clock, recorded."""
