"""`evaluate` and `less`, the public functions for tests of plugins."""

import pytest

from scheduler.base.errors import ConfigError, InputError, ObjectError, PluginError
from scheduler.framework import (
    Args,
    Code,
    Cycle,
    IntColumn,
    Nodes,
    Plugin,
    Rejected,
    Status,
    reject,
)
from scheduler.testing import evaluate, less, node, pod


class RackAgeArgs(Args):
    """The label, and the age limit."""

    label: str = "example.com/rack-age-days"
    max_age_days: int = 365


class RackAge(Plugin[RackAgeArgs]):
    """Reject nodes on old racks; prefer the youngest."""

    reads = ("node.labels",)
    normalize = "reverse"

    def filter(self, cycle: Cycle, nodes: Nodes) -> Rejected:
        age = nodes.label_int(self.args.label)
        return reject(age > self.args.max_age_days, "node(s) were on an old rack", final=True)

    def score(self, cycle: Cycle, nodes: Nodes) -> IntColumn:
        return nodes.label_int(self.args.label)


class Broken(Plugin[Args]):
    """Raise in filter."""

    def filter(self, cycle: Cycle, nodes: Nodes):
        raise ZeroDivisionError("nothing to share")


class Refusing(Plugin[Args]):
    """Answer pre-score with an error."""

    def pre_score(self, cycle: Cycle, nodes: Nodes):
        return Status(Code.ERROR, ("cannot be read",))

    def score(self, cycle: Cycle, nodes: Nodes, state: object):
        return nodes.constant(1)


def rack(name, age):
    """Return a node with the label that RackAge reads."""
    return node(name, labels={"example.com/rack-age-days": str(age)})


NODES = [rack("old", 400), rack("mid", 90), rack("new", 0)]


def test_a_plugin_is_tested_in_three_lines():
    """The test needs a class, plain manifests, and the expected verdict by node name."""
    got = evaluate(RackAge, args={"maxAgeDays": 100}, nodes=NODES, pod=pod())

    assert ("node(s) were on an old rack",) == got.filter["old"].reasons
    assert "RackAge" == got.filter["old"].plugin
    assert {"old": 400, "mid": 90, "new": 0} == got.raw
    assert 100 == got.normalized["new"]


def test_feasible_nodes_alone_are_scored():
    """Only feasible nodes are scored and normalised."""
    got = evaluate(RackAge, nodes=NODES, pod=pod(), feasible_nodes=["mid", "new"])

    assert {"mid": 0, "new": 100} == got.normalized
    with pytest.raises(InputError, match="feasible_nodes names nope"):
        evaluate(RackAge, nodes=NODES, pod=pod(), feasible_nodes=["nope"])


def test_existing_pods_namespaces_and_objects_are_there():
    """Plugins read the given pods, namespaces and objects; finished pods use no resources."""
    sitting = [
        pod("a", node_name="n", requests={"cpu": "1"}),
        pod("b", node_name="n", requests={"cpu": "1"}, status={"phase": "Succeeded"}),
    ]
    service = {"kind": "Service", "metadata": {"name": "s"}, "spec": {"selector": None}}
    got = evaluate(
        "NodeResourcesFit",
        nodes=[node("n", cpu="2")],
        existing_pods=sitting,
        namespaces=[{"kind": "Namespace", "metadata": {"name": "default"}}],
        objects=[service],
        pod=pod(requests={"cpu": "1"}),
    )

    assert got.filter["n"].is_success


def test_the_rest_may_be_left_out():
    """`apiVersion` and `kind` may be omitted: the parameter determines the kind. `now` may be a
    text.
    """
    space = {"metadata": {"name": "a"}}
    bare = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1", "pods": 1}}}
    placed = {"metadata": {"name": "e"}, "spec": {"nodeName": "n", "containers": []}}
    wanted = {"metadata": {"name": "p"}, "spec": {"containers": []}}
    got = evaluate(
        "NodeName",
        nodes=[bare],
        namespaces=[space],
        existing_pods=[placed],
        pod=wanted,
        now="2026-01-31T12:00:00Z",
    )

    assert got.filter["n"].is_success
    with pytest.raises(InputError, match=r"now: .*soon.* is not a time"):
        evaluate("NodeName", nodes=[], pod=pod(), now="soon")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"nodes": [node("n", cpu="many")]}, 'Node n: "many" is not a quantity'),
        ({"nodes": [node("n"), node("n")]}, "Node n: there are two of that name"),
        ({"nodes": [{"metadata": {}}]}, r"Node \(without a name\): metadata.name is missing"),
        ({"pod": pod("x", requests={"cpu": "?"})}, 'Pod default/x: "\\?" is not a quantity'),
        ({"pod": pod("x", spec={"priority": "high"})}, "Pod default/x: Expected `int | null`"),
        ({"existing_pods": [pod("x")]}, "Pod default/x: spec.nodeName is missing"),
        ({"objects": [{"kind": "Servise", "metadata": {"name": "s"}}]}, 'did you mean "Service"'),
        ({"objects": [pod("x")]}, "give it as one of the pods"),
        ({"nodes": ["n"]}, "expected a Node as a mapping, got str"),
    ],
)
def test_a_bad_object_is_named(given, message):
    """The error names the object and the fault."""
    with pytest.raises(ObjectError, match=message):
        evaluate(RackAge, **{"nodes": [], "pod": pod(), **given})


def test_bad_arguments_and_unknown_plugins_are_named():
    """Arguments are read as strictly as in a configuration file."""
    with pytest.raises(ConfigError, match="RackAge args: Object contains unknown field `maxAge`"):
        evaluate(RackAge, args={"maxAge": 1}, nodes=[], pod=pod())
    with pytest.raises(ConfigError, match=r'"NodePort" does not exist.*did you mean "NodePorts"'):
        evaluate("NodePort", nodes=[], pod=pod())


def test_a_fault_is_raised_an_error_status_is_an_outcome():
    """An exception keeps its traceback; a returned status is compared."""
    with pytest.raises(PluginError, match='running "Broken" filter plugin: nothing to share'):
        evaluate(Broken, nodes=[node("n")], pod=pod())
    got = evaluate(Refusing, nodes=[node("n")], pod=pod())

    assert (Code.ERROR, ("cannot be read",)) == (got.pre_score.code, got.pre_score.reasons)
    assert {} == got.raw


def test_less_is_asked_of_sort_plugins_only():
    """`less` rejects a plugin that does not sort the queue."""
    with pytest.raises(InputError, match="plugin RackAge does not sort the queue"):
        less(RackAge, pod("a"), pod("b"))
