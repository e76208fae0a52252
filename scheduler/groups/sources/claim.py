"""A claim: one way in which a pod names its group. Pure."""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from scheduler.objects.pod import Pod


class Claim(msgspec.Struct, frozen=True):
    """How a pod names a group of one source, and which objects could describe that group.

    `name` returns the group's name, '' for none; `moved` returns a copy of a pod that names another
    group instead. `where` is the place in the pod and `objects` are the objects, both as messages
    name them; `kinds` are our names of their kinds. The group's key begins with `prefix`. An equal
    name under the prefix `same_as` is no second claim.
    """

    where: str
    prefix: str
    name: Callable[[Pod], str]
    moved: Callable[[Pod, str], Pod]
    objects: str
    kinds: tuple[str, ...] = ()
    label: str = ""
    same_as: str = ""


def by_label(
    label: str,
    objects: str,
    kinds: tuple[str, ...],
    *,
    prefix: str = "",
    name: Callable[[Pod], str] | None = None,
    same_as: str = "",
) -> Claim:
    """Return the claim of pods by a label; `name` reads the label if its value is not the name."""

    def value(pod: Pod) -> str:
        return pod.metadata.labels.get(label, "")

    def moved(pod: Pod, name: str) -> Pod:
        labels = {**pod.metadata.labels, label: name}
        return replace(pod, metadata=replace(pod.metadata, labels=labels))

    return Claim(f"label {label}", prefix, name or value, moved, objects, kinds, label, same_as)


def by_annotation(
    annotation: str,
    field: str,
    objects: str,
    kinds: tuple[str, ...],
    *,
    prefix: str,
    name: Callable[[Pod], str],
) -> Claim:
    """Return the claim of pods by an annotation, which is `field` of our annotations."""

    def moved(pod: Pod, name: str) -> Pod:
        annotations = replace(pod.metadata.annotations, **{field: name})
        return replace(pod, metadata=replace(pod.metadata, annotations=annotations))

    return Claim(f"annotation {annotation}", prefix, name, moved, objects, kinds)
