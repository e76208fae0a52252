"""The effect of a plugin's exception: it ends its own cycle, with its name, and nothing else."""

from typing import Any

import pytest

from scheduler.base.errors import PluginError
from scheduler.framework.args import NoArgs
from scheduler.framework.cycle import Cycle
from scheduler.framework.plugin import Plugin
from tests.unit.framework.runnerrig import RunnerRig


class Recorder(Plugin[NoArgs]):
    """A plugin that records its calls."""

    def __init__(self, args: NoArgs, handle: Any) -> None:
        super().__init__(args, handle)
        self.calls: list[str] = []

    def reserve(self, cycle: Cycle, node: str) -> None:
        self.calls.append("reserve")

    def unreserve(self, cycle: Cycle, node: str) -> None:
        self.calls.append("unreserve")

    def post_bind(self, cycle: Cycle, node: str) -> None:
        self.calls.append("post_bind")


class First(Recorder):
    """Called first at reserve, last at unreserve."""


class Last(Recorder):
    """Called last at reserve, first at unreserve."""


class Broken(Plugin[NoArgs]):
    """A plugin that raises."""

    def reserve(self, cycle: Cycle, node: str) -> None:
        return None

    def unreserve(self, cycle: Cycle, node: str) -> None:
        raise ValueError("lost the book")

    def post_bind(self, cycle: Cycle, node: str) -> None:
        raise ValueError("no bell")


def test_unreserve_reaches_every_plugin():
    """A reservation is undone although another plugin's unreserve raises; the fault is reported."""
    rig = RunnerRig(First, Broken, Last)

    with pytest.raises(PluginError, match='running Unreserve plugin "Broken": lost the book'):
        rig.runner.unreserve(rig.cycle, "n0", rig.states)

    assert ["unreserve"] == rig.plugin(Last).calls
    assert ["unreserve"] == rig.plugin(First).calls


def test_post_bind_reaches_every_plugin():
    """All plugins are notified of the bind although one of them raises."""
    rig = RunnerRig(First, Broken, Last)

    with pytest.raises(PluginError, match='running PostBind plugin "Broken": no bell'):
        rig.runner.post_bind(rig.cycle, "n0")

    assert ["post_bind"] == rig.plugin(First).calls == rig.plugin(Last).calls
