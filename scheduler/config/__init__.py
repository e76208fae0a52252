"""Configuration files: strict decoding, defaults, merging and validation.

Turns KubeSchedulerConfiguration and TrellisConfiguration text into structs; opens no file.
"""

from scheduler.config.featuregates.gates import read_gates
from scheduler.config.load import Loaded, default_config, load
from scheduler.config.notices import Notice
from scheduler.config.problems import InvalidConfigError, Problem, ReadingStep
from scheduler.config.render import to_configz, to_log, to_yaml
from scheduler.config.settings import ClientConnection, LeaderElection, SchedulerSettings
from scheduler.config.trellis import TrellisConfiguration

__all__ = [
    "ClientConnection",
    "InvalidConfigError",
    "LeaderElection",
    "Loaded",
    "Notice",
    "Problem",
    "ReadingStep",
    "SchedulerSettings",
    "TrellisConfiguration",
    "default_config",
    "load",
    "read_gates",
    "to_configz",
    "to_log",
    "to_yaml",
]
