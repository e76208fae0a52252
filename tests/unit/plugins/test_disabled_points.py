"""The results when a profile disables the point before filter or score (seen live in 1.36)."""

import json

import pytest

from scheduler.base.errors import PluginError
from scheduler.framework.profile import ListedPlugin, ProfileSpec, build_profile
from scheduler.framework.registry import Registry
from scheduler.framework.running.answers import States
from scheduler.framework.running.runner import Runner
from scheduler.intree import IN_TREE
from scheduler.objects.plain import read_pod
from scheduler.simulate.batch import Batch
from scheduler.simulate.setups import Setups
from scheduler.simulate.stage import AnswerOptions
from scheduler.testing import node, pod
from scheduler.testing.scene import Scene


def run(plugin, point, raw):
    """Run filter or score of a plugin that serves that point alone; return the raw scores."""
    scene = Scene(plugin)
    scene.fill([node("a", labels={"x": "1"}), node("b")])
    spec = ProfileSpec("p", {point: (ListedPlugin(plugin),)}, {})
    runner = Runner(build_profile(spec, Registry(IN_TREE), scene.handle))
    cycle, nodes = scene.cycle(read_pod(raw)), scene.nodes()
    if point == "filter":
        feasible, _ = runner.filter(cycle, nodes, States(), nodes.exists)
        return feasible.tolist()
    (scored,) = runner.score(cycle, nodes, States())[1]
    return scored.raw.tolist()


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        ("NodePorts", 'reading "PreFilterNodePorts" from cycleState: not found'),
        (
            "NodeResourcesFit",
            'error reading "PreFilterNodeResourcesFit" from cycleState: not found',
        ),
        (
            "InterPodAffinity",
            'error reading "PreFilterInterPodAffinity" from cycleState: not found',
        ),
        ("PodTopologySpread", 'reading "PreFilterPodTopologySpread" from cycleState: not found'),
        (
            "NodeDeclaredFeatures",
            'error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found',
        ),
        ("VolumeRestrictions", 'cannot read "PreFilterVolumeRestrictions" from cycleState'),
        ("VolumeBinding", "not found"),
        ("DynamicResources", "not found"),
    ],
)
def test_filters_that_need_their_pre_filter_fail_every_pod(plugin, words):
    """Pods that pre-filter would have skipped fail as well, with kube-scheduler's message."""
    with pytest.raises(PluginError) as raised:
        run(plugin, "filter", pod())

    assert f'running "{plugin}" filter plugin: {words}' == str(raised.value)


@pytest.mark.parametrize("plugin", ["NodeVolumeLimits", "VolumeZone"])
def test_filters_that_work_without_their_pre_filter(plugin):
    """These filters compute their inputs on the spot."""
    assert [True, True] == run(plugin, "filter", pod())


@pytest.mark.parametrize(
    ("plugin", "words"),
    [
        ("TaintToleration", "failed to read"),
        ("InterPodAffinity", "failed to read"),
        ("PodTopologySpread", "error reading"),
    ],
)
def test_scores_that_need_their_pre_score_fail_every_pod(plugin, words):
    """These plugins count in pre-score."""
    with pytest.raises(PluginError) as raised:
        run(plugin, "score", pod())

    reported = f'{words} "PreScore{plugin}" from cycleState: not found'
    assert f'running Score plugins: plugin "{plugin}" failed with: {reported}' == str(raised.value)


def test_node_affinity_works_without_either():
    """NodeAffinity then scores pods without preferred terms as well, with 0."""
    selecting = pod(spec={"nodeSelector": {"x": "1"}})

    assert [True, False] == run("NodeAffinity", "filter", selecting)
    assert [True, True] == run("NodeAffinity", "filter", pod())
    assert [0, 0] == run("NodeAffinity", "score", selecting)


def test_a_preferred_term_that_does_not_parse_fails_at_score_then():
    """The error of pre-score is raised one point later."""
    term = {"matchExpressions": [{"key": "x", "operator": "Gt", "values": ["y"]}]}
    preferred = [{"weight": 1, "preference": term}]
    field = "preferredDuringSchedulingIgnoredDuringExecution"
    with pytest.raises(PluginError, match="the value must be an integer"):
        run("NodeAffinity", "score", pod(spec={"affinity": {"nodeAffinity": {field: preferred}}}))


def test_resources_are_scored_without_pre_score():
    """A pod that requests none of the listed resources gets 0 from balanced allocation."""
    neutral = pod(requests={"cpu": "1", "memory": "4Gi"})
    plugin = "NodeResourcesBalancedAllocation"

    assert [97, 97] == run("NodeResourcesFit", "score", pod())
    assert [0, 0] == run(plugin, "score", pod())
    assert [0, 0] == run(plugin, "score", pod(requests={"cpu": "0", "example.com/gpu": "0"}))
    assert [75, 75] == run(plugin, "score", neutral)


def message_of(wanted, *nodes):
    """Return the message of a pod under a profile without PodTopologySpread's pre-filter."""
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"preFilter": {"disabled": [{"name": "PodTopologySpread"}]}},
    }
    text = json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        }
    )
    line = {"id": 1, "config": json.loads(text), "objects": list(nodes), "pending": [wanted]}
    batch = Batch(Setups(Registry(IN_TREE)), AnswerOptions(), str)
    answer = json.loads(batch.answer(json.dumps(line).encode()))
    return answer["simulation"]["pods"][0]["message"]


def test_a_filter_that_fails_in_a_dry_run_ends_preemption_alone():
    """The attempt keeps its reasons; the messages of other post-filter plugins are lost."""
    low = pod("low", node_name="a", requests={"cpu": "1"})
    high = pod("high", requests={"cpu": "4"}, spec={"priority": 1})
    words = 'reading "PreFilterPodTopologySpread" from cycleState: not found'

    assert (
        "0/1 nodes are available: 1 Insufficient cpu. "
        f'preemption: running "PodTopologySpread" filter plugin: {words}'
    ) == message_of(high, node("a"), low)


def test_no_filter_is_asked_about_no_node():
    """Where pre-filter leaves no node, a filter that would fail does not run."""
    required = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["x"]}]}
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = {"nodeAffinity": {field: {"nodeSelectorTerms": [required]}}}

    message = message_of(pod(spec={"affinity": affinity}), node("a"))
    assert message.startswith("0/1 nodes are available: 1 node(s) didn't satisfy plugin(s)")
