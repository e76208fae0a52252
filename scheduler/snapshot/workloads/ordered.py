"""StatefulSets and DaemonSets: their pods, by ordinal or by node.

If such a workload is given in a separate file and its template differs from that of its pods, the
first step of a rolling update is simulated: the StatefulSet's last pod, or as many daemon pods as
may be unavailable, are replaced.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from scheduler.controlplane import rollout
from scheduler.controlplane.daemonsets import daemon_pods, runs_on, target_of
from scheduler.controlplane.statefulsets import (
    ordinal_of,
    ordinals,
    partition,
    stateful_pod,
    volume_claims,
)
from scheduler.controlplane.templates import CONTROLLER_REVISION, template_hash
from scheduler.objects.pod import Pod
from scheduler.snapshot.workloads.found import (
    FoundWorkload,
    Plain,
    SnapshotSurroundings,
    named,
    template_of,
)
from scheduler.snapshot.workloads.owned import same_template
from scheduler.snapshot.workloads.replicas import checked_selector

_CLAIM: Final = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}


def stateful(workload: FoundWorkload, around: SnapshotSurroundings) -> Iterator[Plain]:
    """Yield the pods that a StatefulSet lacks, and their claims."""
    spec = workload.spec
    template = template_of(spec, "spec")
    own = {ordinal_of(pod.metadata.name): pod for pod in _own(workload, around)}
    hashed = f"{workload.name}-{template_hash(template)}"
    wanted = ordinals(spec)

    def made(ordinal: int) -> Plain:
        owner = {**workload.raw, "metadata": workload.owner["metadata"]}
        return named(
            stateful_pod(owner, template, ordinal, revision, workload.reference()),
            workload.namespace,
            f"{workload.name}-{ordinal}",
        )

    revision = hashed
    revision = _revision(own.values(), made(wanted.start), around) or hashed
    if workload.is_given:
        around.removed += [pod for ordinal, pod in own.items() if ordinal not in wanted]
        _replace_last(workload, around, own, made)
    taken = around.pods.names.setdefault(workload.namespace, set())
    for ordinal in wanted:
        name = f"{workload.name}-{ordinal}"
        if ordinal in own:
            continue
        if name in taken:
            around.notices.append(
                f"{workload.title}: the pod name {name} is taken by a pod of another owner"
            )
            continue
        taken.add(name)
        for claim in volume_claims(
            {**workload.raw, "metadata": workload.owner["metadata"]}, ordinal
        ):
            yield {
                **_CLAIM,
                **claim,
                "metadata": {**claim["metadata"], "namespace": workload.namespace},
            }
        yield made(ordinal)


def _replace_last(
    workload: FoundWorkload,
    around: SnapshotSurroundings,
    own: dict[int, Pod],
    made: Callable[[int], Plain],
) -> None:
    """Remove the last pod if its template is old, and the update may start with it."""
    spec = workload.spec
    last = ordinals(spec).stop - 1
    pod = own.get(last)
    if pod is None or last < ordinals(spec).start + partition(spec) or not _rolls(spec):
        return
    if same_template(around.admit(made(last)), pod):
        return
    _note_update(workload, around, len(own) - 1)
    around.removed.append(own.pop(last))
    around.pods.names[workload.namespace].discard(pod.metadata.name)


def daemons(workload: FoundWorkload, around: SnapshotSurroundings) -> Iterator[Plain]:
    """Yield the pods that a DaemonSet lacks on its eligible nodes."""
    template = template_of(workload.spec, "spec")
    own = _own(workload, around)
    on_node: dict[str, Pod] = {}
    for pod in own:
        plain: Plain = msgspec.to_builtins(pod)
        on_node.setdefault(target_of(plain), pod)
    make = DaemonPods(workload, template_hash(template))
    verdicts = {node["metadata"]["name"]: runs_on(template["spec"], node) for node in around.nodes}
    suited = [name for name, (gets_one, _) in verdicts.items() if gets_one]
    revision = _revision(own, make.on("compared", "compared"), around)
    if revision:
        make = DaemonPods(workload, revision)
    if workload.is_given:
        _replace(workload, around, make, on_node, suited)
    for name in suited:
        if name not in on_node:
            chosen = around.free_name(workload.namespace, f"{workload.name}-{name}")
            yield make.on(name, chosen)


class DaemonPods:
    """Create the pods of a DaemonSet node by node."""

    def __init__(self, workload: FoundWorkload, revision: str) -> None:
        self.workload = workload
        self._template = template_of(workload.spec, "spec")
        self._make = daemon_pods(workload.raw, workload.reference(), revision)

    def on(self, node: str, name: str) -> Plain:
        """Return the pod of a node."""
        return named(self._make(node), self.workload.namespace, name)

    def suits(self, node: Plain) -> bool:
        """Return whether a node gets a pod."""
        return runs_on(self._template["spec"], node)[0]


def _replace(
    workload: FoundWorkload,
    around: SnapshotSurroundings,
    make: DaemonPods,
    on_node: dict[str, Pod],
    suited: list[str],
) -> None:
    """Remove old pods, at most maxUnavailable missing ones in total; maxSurge adds before."""
    old = [
        name
        for name in suited
        if name in on_node
        and not same_template(around.admit(make.on(name, "compared")), on_node[name])
    ]
    if not old or not _rolls(workload.spec):
        return
    rolling = (workload.spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    surge = rollout.share(rolling.get("maxSurge", 0), len(suited), round_up=True)
    most = rollout.share(rolling.get("maxUnavailable", 1), len(suited), round_up=True)
    _note_update(workload, around, max(0, len(old) - (surge or most)))
    for name in old[: surge or most]:
        pod = on_node.pop(name)
        if not surge:
            around.removed.append(pod)
            around.pods.names[workload.namespace].discard(pod.metadata.name)


def _own(workload: FoundWorkload, around: SnapshotSurroundings) -> list[Pod]:
    selector = checked_selector(workload)
    own = around.pods.of(workload.kind, workload.owner)
    adopted = around.pods.adoptable(workload.namespace, selector)
    if workload.kind == "StatefulSet":
        begin = f"{workload.name}-"
        adopted = [
            pod
            for pod in adopted
            if pod.metadata.name.startswith(begin) and pod.metadata.name[len(begin) :].isdecimal()
        ]
    return [*own, *adopted]


def _revision(own: Iterable[Pod], made: Plain, around: SnapshotSurroundings) -> str:
    """Return the revision that pods of the present template have already, or ''."""
    candidate: Any = None
    for pod in own:
        label = pod.metadata.labels.get(CONTROLLER_REVISION, "")
        if label:
            candidate = candidate or around.admit(made)
            if same_template(candidate, pod):
                return label
    return ""


def _rolls(spec: Plain) -> bool:
    return (spec.get("updateStrategy") or {}).get("type") != "OnDelete"


def _note_update(workload: FoundWorkload, around: SnapshotSurroundings, left: int) -> None:
    around.notices.append(
        f"{workload.title}: first step of a rolling update: {left} pods of the old template stay "
        "until new pods are available"
    )
