"""Verbs that start a process: the daemon, an embedded cluster, a scenario, the page."""
