"""Which pods belong to which AppGroup, as the scheduler's memory shows them. Pure.

A pod names its group by a label, without a namespace: `objects.groups.appgroup.namespace_of`
selects the namespace, for operators and plugins.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from operators.appgroup.status import ObservedPod
from scheduler.base.text import did_you_mean
from scheduler.objects.groups.appgroup import GROUP_LABEL, WORKLOAD_LABEL, namespace_of
from scheduler.objects.pod import Pod

Key = tuple[str, str]  # namespace, name


class OnNode(Protocol):
    """A pod on a node, as `ClusterView.pods` yields it."""

    @property
    def pod(self) -> Pod: ...
    @property
    def node(self) -> str: ...


# Misspelt labels of groups; only the one with the full name counts.
MISSPELT = (
    "app-group.scheduling.sigs.k8s.io",
    "appgroup.diktyo.k8s.io",
    "appgroup.scheduling.sigs.k8s.io",
    "app-group",
    "appgroup",
)


def by_group(
    pods: Iterable[OnNode], groups: Iterable[Key], namespaces: Sequence[str]
) -> Mapping[Key, list[ObservedPod]]:
    """Return the placed pods of each group, in order of arrival.

    `namespaces` are those where the plugins look up AppGroups besides the pod's own.
    """
    places: dict[str, set[str]] = defaultdict(set)
    for namespace, name in groups:
        places[name].add(namespace)
    found: dict[Key, list[ObservedPod]] = defaultdict(list)
    for placed in pods:
        meta = placed.pod.metadata
        name = meta.labels.get(GROUP_LABEL, "")
        there = places.get(name)
        home = namespace_of(there, meta.namespace, namespaces) if there else None
        if home is None:
            continue
        observed = ObservedPod(
            meta.namespace,
            meta.name,
            meta.labels.get(WORKLOAD_LABEL, ""),
            placed.pod.status.phase,
            placed.node,
        )
        found[home, name].append(observed)
    return found


def misspelt(pods: Iterable[OnNode], groups: Iterable[Key]) -> Counter[tuple[Key, str]]:
    """Count pods with a misspelt group label, by that group and the label's spelling."""
    names = {name: (namespace, name) for namespace, name in groups}
    counts: Counter[tuple[Key, str]] = Counter()
    for placed in pods:
        labels = placed.pod.metadata.labels
        for label in () if GROUP_LABEL in labels else MISSPELT:
            meant = names.get(labels.get(label, ""))
            if meant is not None:
                counts[meant, label] += 1
    return counts


def oddities(counts: Mapping[tuple[Key, str], int]) -> Mapping[Key, tuple[str, ...]]:
    """Return doubtful labels of pods that seem to belong to a group."""
    found: dict[Key, list[str]] = defaultdict(list)
    for (key, label), count in sorted(counts.items()):
        found[key].append(
            f'{count} pod(s) carry the label "{label}"; only "{GROUP_LABEL}" counts'
            f"{did_you_mean(label, (GROUP_LABEL,))}"
        )
    return {key: tuple(texts) for key, texts in found.items()}
