"""The daemon: builds everything once, then runs the loop that drives the engine."""

from scheduler.daemon.process import Daemon, DaemonOptions

__all__ = ["Daemon", "DaemonOptions"]
