"""Agents that run on every node: they measure and report, and decide nothing."""
