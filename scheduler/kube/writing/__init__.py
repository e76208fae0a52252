"""Writes to the API server: bindings, statuses, evictions and events, fenced and in order."""
