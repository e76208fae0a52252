"""Scenarios: a story told on an embedded cluster, chapter by chapter, with expectations that hold."""

from scheduler.demo.form import ScenarioFile, read_scenario
from scheduler.demo.play import ScenarioOutcome, play

__all__ = ["ScenarioFile", "ScenarioOutcome", "play", "read_scenario"]
