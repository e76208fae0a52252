"""All sources of groups in a fixed order: the group of a pod, and the specification in an object.

A source defines which objects it reads, how a pod names its group, and what the object specifies.
All are pure. A pod that two of them claim for different groups is gated: no rule states which claim
counts.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from msgspec.structs import replace

from scheduler.base.errors import ObjectError
from scheduler.framework.groups import COMPOSITE_PREFIX, title
from scheduler.groups.description.spec import GroupSpec
from scheduler.groups.sources import (
    appgroup,
    composite,
    configmap,
    coscheduling,
    derived,
    grove,
    kai,
    kueue,
    volcano,
    workload,
)
from scheduler.objects.groups.appgroup import GROUP_LABEL
from scheduler.objects.kinds import BY_KIND as KIND_OF
from scheduler.objects.pod import Pod


class GroupSource(Protocol):
    """A kind of object that describes groups; `kind` is our name for it, `served_as` the API
    server's, with `api_version`.

    `label` names the source in reports.
    """

    @property
    def kind(self) -> str: ...
    @property
    def served_as(self) -> str: ...
    @property
    def api_version(self) -> str: ...
    @property
    def label(self) -> str: ...

    def key(self, obj: Any) -> str:
        """Return the key of the group that an object describes."""

    def read(self, obj: Any) -> GroupSpec:
        """Return the group that an object describes; ObjectError names the invalid field."""

    def was_placed(self, obj: Any) -> bool:
        """Return whether the object itself states that the group has been bound."""

    def renamed(self, obj: Any, name: str) -> Any:
        """Return a copy of an object that describes another group, of this name, with an empty
        status.
        """


# Of a group that several describe, the first counts.
SOURCES: tuple[GroupSource, ...] = (
    configmap.SOURCE,
    coscheduling.SOURCE,
    *workload.SOURCES,
    composite.SOURCE,
    appgroup.SOURCE,
    volcano.SOURCE,
    kai.SOURCE,
    grove.SOURCE,
    derived.SOURCE,
)
# Those of Kubernetes, which may be nested.
NESTED: dict[str, workload.WorkloadGroups] = {
    one.kind: one for one in (*workload.SOURCES, composite.SOURCE)
}
BY_KIND = {source.kind: source for source in SOURCES}
KINDS = tuple(BY_KIND)
_RANK = {source.kind: rank for rank, source in enumerate(SOURCES)}


# The fault of an object is reported on each pod of its group, so quotes of the object are short.
LONGEST_FAULT = 700
# The sources whose groups a pod names by itself; the label of AppGroups needs the object. Of
# several claims the first counts.
CLAIMS = (
    configmap.CLAIM,
    coscheduling.CLAIM,
    workload.CLAIM,
    volcano.CLAIM,
    kueue.CLAIM,
    kai.CLAIM,
    grove.CLAIM,
)
_ALL_LABELS = frozenset((*filter(None, (claim.label for claim in CLAIMS)), GROUP_LABEL))


def names_group(pod: Pod) -> bool:
    """Return whether a pod names a group of pods by the label, annotation or field of a source."""
    if pod.spec.scheduling_group is not None or pod.derived_group:
        return True
    meta = pod.metadata
    if meta.annotations.volcano_group or meta.annotations.kai_group:
        return True
    return not _ALL_LABELS.isdisjoint(meta.labels)


def group_of(pod: Pod) -> str:
    """Return the key of the group that the pod names, or ''; of several claims the first.

    An application is a group only if an object declares it (`is_by_object`).
    """
    if not names_group(pod):
        return ""
    return _claimed(pod) or derived.key_of(pod) or appgroup.key_of(pod)


def title_of(pod: Pod) -> str:
    """Return `namespace/name` of the group that the pod names, '' for a pod on its own."""
    return title(group_of(pod))


def is_by_object(key: str) -> bool:
    """Return whether pods that name a group form one only while an object describes it."""
    return key.startswith(appgroup.PREFIX)


def lone(kind: str, obj: Any) -> str:
    """Return the key whose pods form no group by the object's statement, '' for none."""
    return derived.SOURCE.lone(obj) if kind == derived.KIND and obj is not None else ""


def _claimed(pod: Pod) -> str:
    for claim in CLAIMS:
        name = claim.name(pod)
        if name:
            return f"{claim.prefix}{pod.metadata.namespace}/{name}"
    return ""


def moved(pod: Pod, name: str) -> Pod:
    """Return a copy of a member that belongs to the group `name` of its namespace instead."""
    claims = [claim for claim in CLAIMS if claim.name(pod)]
    for claim in claims:
        pod = claim.moved(pod, name)
    if claims:
        return pod
    if derived.key_of(pod):
        return derived.moved(pod, name)
    labels = dict(pod.metadata.labels)
    if GROUP_LABEL in labels:
        labels[GROUP_LABEL] = name
    return replace(pod, metadata=replace(pod.metadata, labels=labels))


def dispute(pod: Pod) -> str:
    """Return the groups that claim the pod if its claims differ, or ''.

    Equal names under both labels are one claim: a PodGroup may replace the ConfigMap.
    """
    claims = [(claim, name) for claim in CLAIMS if (name := claim.name(pod))]
    if not claims:
        return derived.rivals(pod)
    if (
        len(claims) == 1
        or len({(claim.same_as or claim.prefix, name) for claim, name in claims}) == 1
    ):
        return ""
    return " and ".join(f"{claim.where} ({name})" for claim, name in claims)


def also_claimed(pod: Pod) -> str:
    """Return the groups that claim a pod beside the application (a gang) that it names; '' for
    none.
    """
    key = _claimed(pod) or derived.key_of(pod)
    if not key:
        return ""
    return (
        f"label {GROUP_LABEL} ({pod.metadata.labels[GROUP_LABEL]}, a gang) and the group "
        f"{title(key)}"
    )


def in_order(found: Iterable[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Return the (kind, object) pairs that describe one group, in order of precedence."""
    return sorted(found, key=lambda pair: (_RANK[pair[0]], pair[1].metadata.name))


def read(kind: str, obj: Any) -> GroupSpec | ObjectError:
    """Return the group that an object describes, or its error."""
    meta = obj.metadata
    source = BY_KIND[kind]
    try:
        return source.read(obj)
    except ObjectError as error:
        text = error.message
        if len(text) > LONGEST_FAULT:
            text = f"{text[:LONGEST_FAULT]}..."
        return ObjectError(f"{source.served_as} {meta.namespace}/{meta.name}: {text}")


def parent(kind: str, obj: Any) -> str:
    """Return the key of the group of groups that the group of an object is in, or an empty text."""
    return NESTED[kind].parent(obj) if kind in NESTED else ""


def changes_description(kind: str, old: Any, new: Any) -> bool:
    """Return whether a change of an object changes the description of a group."""
    if old is None or new is None or BY_KIND[kind].key(old) != BY_KIND[kind].key(new):
        return True
    before, after = read(kind, old), read(kind, new)
    return isinstance(before, ObjectError) or isinstance(after, ObjectError) or before != after


def described_by(kind: str, *objects: Any) -> set[str]:
    """Return the keys of the groups that these objects describe (None for no object)."""
    if kind not in BY_KIND:
        return set()
    keys = (BY_KIND[kind].key(obj) for obj in objects if obj is not None)
    return {key for key in keys if key}


def began_or_ended(kind: str, old: Any, new: Any) -> str:
    """Return the key of the application that a change made a gang, or no gang any more; '' for
    none.
    """
    if kind == derived.KIND:
        alone, still = lone(kind, old), lone(kind, new)
        return "" if alone == still else alone or still
    if kind != appgroup.KIND:
        return ""
    before, after = (BY_KIND[kind].key(obj) if obj is not None else "" for obj in (old, new))
    return "" if before == after else before or after


def label_of(key: str, found: Sequence[tuple[str, Any]]) -> str:
    """Return the name in reports of the source that these objects are of, '' without an object."""
    if key.startswith(kueue.PREFIX):
        return kueue.SOURCE_LABEL
    return BY_KIND[found[0][0]].label if found else ""


def missing(key: str, is_denied: Callable[[str], bool]) -> str:
    """Return the message about a group that no object describes.

    Names the resources that this process may not list (`is_denied` by our name of a kind): the
    object may exist.
    """
    text, kinds = _missing(key)
    denied = dict.fromkeys(KIND_OF[kind].resource for kind in kinds if is_denied(kind))
    return f"{text}; this scheduler may not list {', '.join(denied)}" if denied else text


def _missing(key: str) -> tuple[str, Sequence[str]]:
    """Return the message that no object describes a group, with the kinds whose objects could."""
    name = title(key)
    if key.startswith(COMPOSITE_PREFIX):
        return f"no CompositePodGroup describes the group {name}, which others are in", (
            composite.KIND,
        )
    if key.startswith(derived.PREFIX):
        return derived.missing(key), ()
    of = [claim for claim in CLAIMS if claim.prefix and key.startswith(claim.prefix)]
    claims = of or [claim for claim in CLAIMS if not claim.prefix]
    objects = " or ".join(claim.objects for claim in claims)
    kinds = tuple(kind for claim in claims for kind in claim.kinds)
    return f"no {objects} describes the group {name}", kinds
