"""Kueue's pod groups: a label of the pods names one; their annotations state its size and its
topology.

No object describes such a group: its pods do, and all must state the same. Kueue's gates keep a pod
out of the queue until it is admitted. If its topology-aware scheduling has chosen nodes, they are
in the pod's node selector, and Trellis makes no other choice. A group with running pods takes
further ones one by one, because ended ones are not visible. Constraints that cannot be placed
exactly here are rejected, with the annotation named. Pure.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from scheduler.base.errors import ObjectError
from scheduler.groups.description.spec import LARGEST_GROUP, GroupSpec, LabelRule
from scheduler.groups.sources.claim import by_label
from scheduler.groups.topology.placement import in_order
from scheduler.objects.groups.kueue import HOSTNAME
from scheduler.objects.pod import Pod, PodAnnotations, PodSpec

PREFIX = "kueue:"
SOURCE_LABEL = "pods of Kueue"
LABEL = "kueue.x-k8s.io/pod-group-name"
ROLE_LABEL = "kueue.x-k8s.io/pod-group-role"
INDEX_LABEL = "kueue.x-k8s.io/pod-group-pod-index"
_DIGITS = 10
_DOMAIN = "kueue.x-k8s.io/"
TOTAL = f"{_DOMAIN}pod-group-total-count"
REQUIRED = f"{_DOMAIN}podset-required-topology"
PREFERRED = f"{_DOMAIN}podset-preferred-topology"
UNCONSTRAINED = f"{_DOMAIN}podset-unconstrained-topology"
GROUP = f"{_DOMAIN}podset-group-name"
SLICES = f"{_DOMAIN}podset-slice-required-topology"
SLICE_SIZE = f"{_DOMAIN}podset-slice-size"
LAYERS = f"{_DOMAIN}podset-slice-required-topology-constraints"


def name_in(pod: Pod) -> str:
    """Return the name of the pod's group, '' for a pod that is admitted alone."""
    name = pod.metadata.labels.get(LABEL, "")
    return "" if name and pod.metadata.annotations.kueue_is_fast == "true" else name


# No object describes such a group: its pods do.
CLAIM = by_label(LABEL, "pod", (), prefix=PREFIX, name=name_in)


def read(pod: Pod, placed: int = 0) -> GroupSpec:
    """Return the group of a pod, `placed` members of which are bound; ObjectError names the invalid
    annotation.
    """
    meta = pod.metadata
    annotations = meta.annotations
    if not annotations.kueue_total:
        raise ObjectError(_about(pod, TOTAL, "is missing"))
    total = _number(pod, TOTAL, annotations.kueue_total)
    rule = None if _is_chosen(pod) else _rule(pod, total)
    return GroupSpec(
        meta.namespace,
        name_in(pod),
        min(total, placed) or total,
        None,
        {},
        f"pods of Kueue's group {meta.namespace}/{name_in(pod)}",
        is_minimum=bool(placed),
        has_classes=True,
        labels=rule,
    )


def check(pods: Sequence[Pod]) -> None:
    """Check that members state the same, and that it can be placed exactly; ObjectError names two
    that differ.
    """
    first = pods[0]
    for other in pods:
        for annotation, one, another in _differences(first, other):
            raise ObjectError(
                f"metadata.annotations[{annotation}]: {first.metadata.name} says {one!r:.60}, "
                f"{other.metadata.name} {another!r:.60}"
            )
    if _is_chosen(first):
        return
    annotations = first.metadata.annotations
    named = next(
        (
            name
            for name, text in (
                (REQUIRED, annotations.kueue_required),
                (PREFERRED, annotations.kueue_preferred),
                (SLICES, annotations.kueue_slices),
            )
            if text
        ),
        "",
    )
    if named and (named == SLICES or not annotations.kueue_group):
        _check_roles(pods, named)


def _check_roles(pods: Sequence[Pod], named: str) -> None:
    first = pods[0]
    for other in pods:
        if _role(other) != _role(first):
            raise ObjectError(
                f"metadata.annotations[{named}] is refused: {first.metadata.name} and "
                f"{other.metadata.name} have "
                "different roles, each of which would be placed on its own; with one "
                f"{GROUP}, and without slices, they are "
                "placed together"
            )


def ranks(pods: Sequence[Pod]) -> dict[str, int]:
    """Return the rank of pods in their group by uid: the index label, else the place by name if all
    are given.
    """
    indexes = {pod.metadata.uid: pod.metadata.labels.get(INDEX_LABEL, "") for pod in pods}
    if all(text.isdecimal() and len(text) < _DIGITS for text in indexes.values()):
        return {uid: int(text) for uid, text in indexes.items()}
    total = pods[0].metadata.annotations.kueue_total if pods else ""
    if total != str(len(pods)):
        return {}
    return {pod.metadata.uid: rank for rank, pod in enumerate(in_order(pods))}


def _role(pod: Pod) -> tuple[str, PodSpec | None]:
    """Return a key that is equal for pods of one role, as far as scheduling is concerned."""
    name = pod.metadata.annotations.kueue_role or pod.metadata.labels.get(ROLE_LABEL, "")
    if name:
        return name, None
    return "", replace(pod.spec, node_name="", scheduling_gates=(), node_selector=None)


def _differences(one: Pod, other: Pod) -> Iterable[tuple[str, str, str]]:
    """Yield the annotations in which pods of one group differ, with their values."""
    if one is other:
        return
    a, b = one.metadata.annotations, other.metadata.annotations
    for name, text, another in (
        (TOTAL, a.kueue_total, b.kueue_total),
        *zip(_TOPOLOGY, _topology(a), _topology(b), strict=True),
    ):
        if text != another:
            yield name, text, another


_TOPOLOGY = (REQUIRED, PREFERRED, UNCONSTRAINED, GROUP, SLICES, SLICE_SIZE, LAYERS)


def _topology(annotations: PodAnnotations) -> tuple[str, ...]:
    return (
        annotations.kueue_required,
        annotations.kueue_preferred,
        annotations.kueue_unconstrained,
        annotations.kueue_group,
        annotations.kueue_slices,
        annotations.kueue_slice_size,
        annotations.kueue_layers,
    )


def _is_chosen(pod: Pod) -> bool:
    """Return whether Kueue has chosen the pod's nodes: its selector names a node, or a level that
    the pod requests.
    """
    chosen, annotations = pod.spec.node_selector or {}, pod.metadata.annotations
    named = (annotations.kueue_required, annotations.kueue_preferred, annotations.kueue_slices)
    return HOSTNAME in chosen or any(label and label in chosen for label in named)


def _rule(pod: Pod, total: int) -> LabelRule | None:
    annotations = pod.metadata.annotations
    if annotations.kueue_layers:
        raise ObjectError(
            _about(pod, LAYERS, "is refused: slices of one level are placed, not of several")
        )
    given = [
        name
        for name, text in zip(_TOPOLOGY[:3], _topology(annotations)[:3], strict=True)
        if text and not (name == UNCONSTRAINED and text == "false")
    ]
    if len(given) > 1:
        raise ObjectError(_about(pod, given[0], f"and {given[1]} exclude each other"))
    if annotations.kueue_unconstrained not in ("", "true", "false"):
        raise ObjectError(_about(pod, UNCONSTRAINED, "true or false is needed"))
    if bool(annotations.kueue_slices) != bool(annotations.kueue_slice_size):
        missing = SLICE_SIZE if annotations.kueue_slices else SLICES
        raise ObjectError(_about(pod, missing, "is missing: it goes with the other one for slices"))
    size = _number(pod, SLICE_SIZE, annotations.kueue_slice_size) if annotations.kueue_slices else 0
    if size and total % size:
        raise ObjectError(
            _about(pod, SLICE_SIZE, f"{total} pods are no whole number of slices of {size}")
        )
    if not (annotations.kueue_required or annotations.kueue_preferred or annotations.kueue_slices):
        return None
    return LabelRule(
        annotations.kueue_required, annotations.kueue_preferred, annotations.kueue_slices, size
    )


def _number(pod: Pod, annotation: str, text: str) -> int:
    is_number = len(text) < _DIGITS and text.isascii() and text.isdecimal()
    if not is_number or not 1 <= int(text) <= LARGEST_GROUP:
        raise ObjectError(
            _about(pod, annotation, f"{text!r:.60} is no number from 1 to {LARGEST_GROUP}")
        )
    return int(text)


def _about(pod: Pod, annotation: str, text: str) -> str:
    return f"pod {pod.metadata.name}: metadata.annotations[{annotation}]: {text}"
