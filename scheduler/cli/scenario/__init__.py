"""Scenarios: a story told on an embedded cluster, chapter by chapter, with expectations that hold."""

from scheduler.cli.scenario.form import Scenario, read_scenario
from scheduler.cli.scenario.play import Outcome, play

__all__ = ["Outcome", "Scenario", "play", "read_scenario"]
