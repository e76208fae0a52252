"""Scenarios: chapters of steps on an embedded cluster, with checked expectations."""

from scheduler.demo.form import ScenarioFile, read_scenario
from scheduler.demo.play import ScenarioOutcome, play

__all__ = ["ScenarioFile", "ScenarioOutcome", "play", "read_scenario"]
