"""Verdicts of filters on a changed cluster: with nominated pods, without pods to evict."""
