"""Scenarios: a story told on an embedded cluster, chapter by chapter, with expectations that hold."""

from scheduler.cli.scenario.form import ScenarioFile, read_scenario
from scheduler.cli.scenario.play import ScenarioOutcome, play

__all__ = ["ScenarioFile", "ScenarioOutcome", "play", "read_scenario"]
