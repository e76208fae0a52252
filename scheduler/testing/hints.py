"""The invariant of requeueing: a change that lets a rejected pod pass must wake it.

For small changes of a sample cluster (a node appears, grows, loses a taint; a pod ends, shrinks;
the waiting pod itself changes) the plugin runs before and after. If a rejection turns into
acceptance, one of the change's facts must be in `reads`, and `hint`, if defined, must return True.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from scheduler.base.errors import PluginError
from scheduler.objects.node import Node
from scheduler.objects.plain import read_node
from scheduler.objects.pod import Pod, ResourceRequirements, Toleration
from scheduler.state import facts
from scheduler.state.change import Change
from scheduler.testing.evaluate import look
from scheduler.testing.samples import Manifest
from scheduler.testing.scene import Scene
from scheduler.testing.trial import Trial

Edit = Callable[[Scene], Change]

_replace = msgspec.structs.replace


def wakes(trial: Trial) -> Iterator[str]:
    """Each change that turns a rejection into acceptance wakes the pod."""
    pods = trial.pods()
    rejects = False
    for raw in trial.samples.nodes:
        scene = trial.scene([raw])
        rejected = [pod for pod in pods if _passes(scene, pod) is False]
        rejects = rejects or bool(rejected)
        for pod in rejected:
            yield from _own_changes(scene, pod)
        for title, edit in _edits(trial, raw):
            yield from _edited(trial.scene([raw]), rejected, title, edit)
    if rejects and not trial.cls.reads:
        yield "it rejects pods but reads nothing, so nothing will ever wake them"


def _edited(scene: Scene, rejected: list[Pod], title: str, edit: Edit) -> Iterator[str]:
    if not rejected:
        return
    change = scene.follow(edit(scene))
    for pod in rejected:
        if _passes(scene, pod) and not _woken(scene, change, pod):
            yield f"pod {pod.key} would pass after this change, but is not woken: {title}"


def _edits(trial: Trial, raw: Manifest) -> Iterator[tuple[str, Edit]]:
    """Yield changes of a cluster with the node `raw` and its pods."""
    node = read_node(raw)
    for other in trial.samples.nodes:
        if other is raw:
            continue
        became = _named(read_node(other), node.key)
        appears = _named(read_node(other), "new")
        name = other["metadata"]["name"]
        yield f"node {node.key} became like {name}", _put_node(became)
        yield f"a node like {name} appeared beside {node.key}", _put_node(appears)
    for one in trial.samples.existing_pods:
        if one["spec"]["nodeName"] == node.key:
            yield from _pod_edits(one["metadata"]["name"], node.key)


def _pod_edits(name: str, node: str) -> Iterator[tuple[str, Edit]]:
    def placed(scene: Scene) -> Pod:
        return next(p.pod for p in scene.cluster.pods if p.pod.metadata.name == name)

    def relabel(scene: Scene) -> Change:
        pod = placed(scene)
        labels = {} if pod.metadata.labels else {"app": "web"}
        return scene.cluster.put_pod(_replace(pod, metadata=_replace(pod.metadata, labels=labels)))

    yield (
        f"pod {name} left node {node}",
        lambda scene: scene.cluster.drop_pod(placed(scene).metadata.uid),
    )
    yield (
        f"pod {name} on node {node} requests less",
        lambda scene: scene.cluster.put_pod(_shrunk(placed(scene))),
    )
    yield f"pod {name} on node {node} changed its labels", relabel


def _own_changes(scene: Scene, pod: Pod) -> Iterator[str]:
    """Try changes of the waiting pod itself."""
    spec, meta = pod.spec, pod.metadata
    versions = {
        "tolerates everything": _replace(
            pod, spec=_replace(spec, tolerations=(Toleration(operator="Exists"),))
        ),
        "lost its gates": _replace(pod, spec=_replace(spec, scheduling_gates=())),
        "asks for less": _shrunk(pod),
        "changed its labels": _replace(pod, metadata=_replace(meta, labels={"app": "web"})),
    }
    for title, new in versions.items():
        changed = facts.waiting_facts(pod, new, shrank=title == "asks for less")
        change = Change("Pod", "update", changed, old=pod, new=new)
        if changed and _passes(scene, new) and not _woken(scene, change, new):
            yield f"pod {pod.key} would pass, but is not woken: it {title}"


def _passes(scene: Scene, pod: Pod) -> bool | None:
    """Return whether the plugin admits the pod to the queue and to some node; None if it raises."""
    if scene.plugin.serves("pre_enqueue") and scene.plugin.pre_enqueue(pod) is not None:
        return False
    try:
        evaluation = look(scene, scene.cycle(pod))
    except PluginError:
        return None
    return any(status.is_success for status in evaluation.filter.values()) or (
        evaluation.pre_filter.code == "Skip"
    )


def _woken(scene: Scene, change: Change, pod: Pod) -> bool:
    plugin: Any = scene.plugin
    if not change.facts.intersection(plugin.reads):
        return False
    return not plugin.serves("hint") or bool(plugin.hint(change, pod))


def _put_node(node: Node) -> Edit:
    return lambda scene: scene.cluster.put_node(node)


def _named(node: Node, name: str) -> Node:
    return _replace(node, metadata=_replace(node.metadata, name=name))


def _shrunk(pod: Pod) -> Pod:
    spec = pod.spec
    containers = tuple(_replace(c, resources=ResourceRequirements()) for c in spec.containers)
    return _replace(pod, spec=_replace(spec, containers=containers))
