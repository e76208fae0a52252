"""For tests of plugins, here and in other repositories: one plugin's verdict from plain manifests.

Runs the scheduler's own code on a cluster in memory; needs no API server and never sleeps.
"""

from scheduler.testing.builders import node, pod
from scheduler.testing.check import BrokenLawsError, check_plugin
from scheduler.testing.evaluate import Evaluation, evaluate, less

__all__ = ["BrokenLawsError", "Evaluation", "check_plugin", "evaluate", "less", "node", "pod"]
