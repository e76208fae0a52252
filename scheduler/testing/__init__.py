"""For tests of plugins, here and in other repositories, from plain manifests.

`evaluate` and `less` return one plugin's verdict, `check_plugin` tests the invariants of all
plugins on it, `Scenario` runs the whole engine on a clock of its own. The scheduler's own code on a
cluster in memory: needs no API server and never sleeps.
"""

from scheduler.testing.builders import node, pod
from scheduler.testing.check import BrokenLawsError, check_plugin
from scheduler.testing.evaluate import Evaluation, evaluate, less
from scheduler.testing.scenario import Fault, Scenario

__all__ = [
    "BrokenLawsError",
    "Evaluation",
    "Fault",
    "Scenario",
    "check_plugin",
    "evaluate",
    "less",
    "node",
    "pod",
]
