"""DynamicResources: pods that need devices are held, never bound, and messages read as expected."""

import pytest

from scheduler.config import default_config
from scheduler.engine.effects import Bind, Listed, SetStatus, Watched
from scheduler.engine.engine import Engine
from scheduler.framework.answers import States
from scheduler.framework.registry import Registry
from scheduler.framework.status import SKIP, SUCCESS, Code
from scheduler.objects.plain import read_node, read_object, read_pod
from scheduler.plugins.dynamicresources import DynamicResources, DynamicResourcesArgs
from scheduler.plugins.intree import IN_TREE
from scheduler.plugins.noderesourcesfit import NodeResourcesFit
from scheduler.state.change import Change
from scheduler.testing import check_plugin, evaluate, node, pod
from scheduler.testing.scene import NOW, Scene
from tests.unit.plugins.storage import device_class, using

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
NODES = [node("plain"), node("gpus", allocatable={GPU: 4}), node("busy", allocatable={GPU: 1})]
CLAIMING = pod("p", spec={"resourceClaims": [{"name": "gpu", "resourceClaimName": "x"}]})
HELD = "pod uses resource claims, which are not supported yet: [gpu]"
ONLY = f"node(s) offer {GPU} only by dynamic resource allocation, which is not supported yet"


def test_it_keeps_the_laws():
    """The laws of all plugins hold."""
    check_plugin(DynamicResources, pods=[CLAIMING], objects=[device_class("gpu", GPU)])


def test_a_pod_with_claims_is_rejected_for_good():
    """Before any node is looked at, and again wherever a profile could let it through."""
    scene = Scene(DynamicResources)
    cycle = scene.cycle(read_pod(CLAIMING))
    got = evaluate(DynamicResources, nodes=NODES, pod=CLAIMING)

    assert (Code.UNRESOLVABLE, (HELD,)) == (got.pre_filter.code, got.pre_filter.reasons)
    assert (HELD,) == scene.runner.reserve(cycle, "plain", States()).reasons
    with pytest.raises(StopIteration) as end:
        next(scene.plugin.pre_bind(cycle, "plain", None))
    assert (Code.ERROR, (HELD,)) == (end.value.value.code, end.value.value.reasons)


def test_other_pods_pass_through():
    """Nothing is reserved, written or scored for them."""
    scene = Scene(DynamicResources)
    scene.fill(NODES)
    cycle = scene.cycle(read_pod(pod()))
    with pytest.raises(StopIteration) as end:
        next(scene.plugin.pre_bind(cycle, "plain", None))

    assert SUCCESS == end.value.value
    assert scene.runner.reserve(cycle, "plain", States()).is_success
    got = evaluate(DynamicResources, nodes=NODES, pod=pod())
    assert (SKIP, {0}) == (got.pre_filter, set(got.normalized.values()))


def test_a_resource_behind_a_class_is_not_offered():
    """Nodes that offer it by themselves do; without a class NodeResourcesFit has the say."""
    wanting = pod(requests={GPU: 1})
    behind = [device_class("gpu", GPU)]

    assert SKIP == evaluate(DynamicResources, nodes=NODES, pod=wanting).pre_filter
    got = evaluate(DynamicResources, nodes=NODES, objects=behind, pod=wanting)
    assert {"plain": (ONLY,), "gpus": (), "busy": ()} == {
        n: s.reasons for n, s in got.filter.items()
    }
    assert Code.UNRESOLVABLE == got.filter["plain"].code
    by_class = evaluate(
        DynamicResources, nodes=NODES, objects=behind, pod=pod(requests={IMPLICIT: 1})
    )
    assert not any(status.is_success for status in by_class.filter.values())


def test_the_fit_leaves_such_nodes_alone():
    """It still counts the resource where a node names it, and everything else everywhere."""
    wanting = pod(requests={GPU: 2, "cpu": "2"})
    got = evaluate(
        NodeResourcesFit,
        nodes=[*NODES, node("small", cpu="1")],
        existing_pods=[pod("e", node_name="gpus", requests={GPU: 3})],
        objects=[device_class("gpu", GPU)],
        pod=wanting,
    )

    assert {
        "plain": (Code.SUCCESS, ()),
        "gpus": (Code.UNSCHEDULABLE, (f"Insufficient {GPU}",)),
        "busy": (Code.UNRESOLVABLE, (f"Insufficient {GPU}",)),
        "small": (Code.UNRESOLVABLE, ("Insufficient cpu",)),
    } == {name: (status.code, status.reasons) for name, status in got.filter.items()}


def test_what_wakes_a_pod():
    """A node that offers the resource by itself; nothing helps a pod with claims."""
    scene = Scene(DynamicResources)
    scene.fill(objects=[device_class("gpu", GPU)])
    wanting = read_pod(pod(requests={GPU: 1}))

    def helps(verb, new, old=None, waiting=wanting):
        kind = "DeviceClass" if (new or old)["kind"] == "DeviceClass" else "Node"
        read = read_node if kind == "Node" else lambda raw: read_object(raw)[1]
        before, after = (read(raw) if raw else None for raw in (old, new))
        return scene.plugin.hint(Change(kind, verb, old=before, new=after), waiting)

    assert helps("add", NODES[1])
    assert not helps("add", NODES[0])
    assert helps("update", NODES[1], node("gpus"))
    assert not helps("update", NODES[1], NODES[2])
    assert helps("delete", None, device_class("gpu", GPU))
    assert helps("update", device_class("gpu"), device_class("gpu", GPU))
    assert not helps("add", device_class("gpu", GPU))
    assert not helps("add", NODES[1], waiting=read_pod(CLAIMING))


@pytest.mark.parametrize(
    ("args", "faults"),
    [
        (DynamicResourcesArgs(), []),
        (DynamicResourcesArgs(filter_timeout="0s", binding_timeout="1s"), []),
        (
            DynamicResourcesArgs(filter_timeout="-5s"),
            [("filterTimeout", 'Invalid value: "-5s": must be zero or positive')],
        ),
        (
            DynamicResourcesArgs(binding_timeout="999ms"),
            [("bindingTimeout", 'Invalid value: "999ms": must be at least 1 second')],
        ),
    ],
)
def test_arguments(args, faults):
    """They are read and checked, though nothing is allocated."""
    assert faults == list(args.validate())


def told(waiting, *, existing=()):
    """Return what an engine with the default profile tells a pod; it must not bind it."""
    registry = Registry(IN_TREE)
    engine = Engine(default_config(registry).profiles, registry)
    engine.handle(Listed("Node", tuple(map(read_node, NODES))), NOW)
    engine.handle(Listed("Pod", tuple(map(read_pod, existing))), NOW)
    waiting["spec"]["schedulerName"] = "trellis"
    engine.handle(Watched("Pod", "ADDED", read_pod(waiting)), NOW)
    effects = engine.run(NOW, 1)
    assert not [effect for effect in effects if isinstance(effect, Bind)]
    (status,) = [effect for effect in effects if isinstance(effect, SetStatus)]
    assert status.condition is not None
    return status.condition.message


def test_messages_have_the_text_that_kube_schedulers_have():
    """Nothing to deallocate; or, when an earlier pre-filter rejected the pod, an error's text alone."""
    unhelpful = "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    no_claims = f"no new claims to deallocate, {unhelpful}"

    assert f"0/3 nodes are available: 3 Insufficient cpu. {no_claims}" == told(
        pod(requests={"cpu": "99"})
    )
    assert f"0/3 nodes are available: {HELD}. {no_claims}" == told(CLAIMING)
    missing = '0/3 nodes are available: persistentvolumeclaim "nope" not found. not found'
    assert missing == told(using("nope"))
