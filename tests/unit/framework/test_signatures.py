"""An error in one sentence for a plugin that the framework cannot call, or whose answer is
invalid.
"""

import re
from typing import Any

import numpy as np
import pytest

from scheduler.base.errors import ConfigError, PluginError
from scheduler.framework import NoArgs, Plugin, reject
from scheduler.framework.plugin import POINTS
from scheduler.framework.points import Filter, PreFilter
from scheduler.framework.registry import Registry
from tests.unit.framework import wrongplugin
from tests.unit.framework.runnerrig import RunnerRig, made


def refusal(cls: type[Plugin[Any]]) -> str:
    """Return the registry's error about a class."""
    with pytest.raises(ConfigError) as raised:
        Registry([cls])
    return str(raised.value)


class TestRegistry:
    """The errors when a class is added."""

    def test_every_wrong_signature_is_named(self):
        """The message names the class, the method, and its required arguments."""
        reported = refusal(wrongplugin.EveryPointWrong)

        assert reported.startswith(f"{wrongplugin.__name__}.EveryPointWrong: ")
        for method in (*POINTS, "unreserve", "hint"):
            assert re.search(rf"(^|[:;] ){method}\b", reported), method
        assert (
            "filter(self, nodes: 'Nodes') does not take what it is called with, "
            "(cycle, nodes, state)"
            in reported
            or "filter(self, nodes: scheduler.framework.nodes.Nodes) does not take what it is "
            "called with, (cycle, nodes, state)"
            in reported
        )
        assert "pre_bind is async" in reported

    @pytest.mark.parametrize(
        ("members", "method"),
        [
            ({"filter": lambda _self, _cycle: None}, "filter"),
            ({"score": lambda _self, _cycle, _nodes, _state: None}, "score"),
            ({"pre_filter": lambda *_: 1, "score": lambda _self, _cycle, _nodes: None}, "score"),
            ({"reserve": 7}, "reserve"),
            ({"hint": staticmethod(lambda _change: True)}, "hint"),
        ],
    )
    def test_one_wrong_method(self, members: dict[str, Any], method: str):
        """State is passed to methods of plugins with a pre-filter, and to no others."""
        reported = refusal(made("Odd", **members))

        assert ": " + method in reported
        assert 1 == reported.count("does not take") + reported.count("must be a method")

    def test_right_ones_are_taken(self):
        """Valid signatures are accepted, whatever the names of the arguments, and with additional
        arguments that have defaults.
        """
        cls = made(
            "Fine",
            pre_filter=staticmethod(lambda _cycle, _nodes: None),
            filter=lambda _self, _c, _n, wanted=None, *, more=1: None,
            score=lambda *_: None,
            hint=classmethod(lambda _cls, _change, _pod: True),
        )

        assert "Fine" in Registry([cls])

    def test_a_misspelt_fact(self):
        """A plugin that reads a missing fact would never be woken."""
        reported = refusal(made("Rack", filter=lambda *_: None, reads=("node.lables", "Service")))

        assert 'reads names the fact "node.lables", which does not exist' in reported
        assert 'did you mean "node.labels"?' in reported
        assert "Service" not in reported

    def test_reads_that_is_no_tuple(self):
        """A single string would be read character by character."""
        assert "reads must be a tuple of facts" in refusal(
            made("Rack", filter=lambda *_: None, reads="node.labels")
        )

    def test_a_protocol_among_the_bases_is_no_method(self):
        """A base declares points of the class; only methods that the class defines are
        called.
        """

        class Half(PreFilter[int], Filter[int], Plugin[NoArgs]):
            def filter(self, cycle: Any, nodes: Any, state: int) -> None:
                return None

        assert ("filter",) == Half.points()


class TestReturned:
    """The end of an attempt after an invalid answer."""

    def fault(self, call: str, **members: Any) -> str:
        """Return the runner's error."""
        rig = RunnerRig(made("Odd", **members))
        runner, nodes, states = rig.runner, rig.nodes, rig.states
        failure: Any = None  # the plugin's answer is invalid before it is read
        calls = {
            "filter": lambda: runner.filter(rig.cycle, nodes, states, nodes.exists),
            "score": lambda: runner.score(rig.cycle, nodes, states),
            "reserve": lambda: runner.reserve(rig.cycle, "n0", states),
            "permit": lambda: runner.permit(rig.cycle, "n0"),
            "bind": lambda: next(runner.bind(rig.cycle, "n0", states)),
            "post_filter": lambda: runner.post_filter(rig.cycle, nodes, failure),
        }
        with pytest.raises(PluginError) as raised:
            calls[call]()
        assert "Odd" == raised.value.plugin
        return raised.value.message

    @pytest.mark.parametrize(
        ("method", "answer", "reported"),
        [
            ("filter", ["n0"], "filter returned a list; expected is None or a Rejected"),
            ("filter", True, "filter returned a bool"),
            (
                "filter",
                reject(np.zeros(2, dtype=np.bool_), "few"),
                (
                    "filter returned rejected a column of 2 bool values; "
                    "expected is rows as a column of 3 bools"
                ),
            ),
            (
                "filter",
                reject(np.zeros(3, dtype=np.int64), "numbers"),
                "filter returned rejected a column of 3 int64 values",
            ),
            ("score", [1, 2, 3], "score returned a list; expected is an int64 column of 3 rows"),
            ("score", np.zeros(3), "score returned a column of 3 float64 values"),
            ("score", None, "score returned None"),
            ("score", np.zeros((3, 1), np.int64), "score returned an array of shape (3, 1)"),
            ("reserve", False, "reserve returned a bool; expected is None or a Status"),
            ("permit", 5.0, "permit returned a float; expected is None or a Status"),
            ("bind", None, "Bind returned None; expected is a generator"),
            ("post_filter", None, "post_filter returned None; expected is a PostFiltered"),
        ],
    )
    def test_it_names_what_came_and_what_was_expected(
        self, method: str, answer: Any, reported: str
    ):
        """Instead of an attribute that a list does not have."""
        assert reported in self.fault(method, **{method: lambda *_: answer})

    def test_what_normalize_returns(self):
        """The result of `normalize` is checked like the scores."""
        scores = np.zeros(3, dtype=np.int64)
        reported = self.fault("score", score=lambda *_: scores, normalize=lambda *_: [1, 2, 3])

        assert "normalize returned a list; expected is an int64 column of 3 rows" == reported
