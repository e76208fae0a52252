"""Traces of arrivals and ends: read from files, played on the virtual clock, recorded."""
