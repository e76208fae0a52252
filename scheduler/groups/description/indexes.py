"""The index of a member in its job, as the controllers of workloads label it.

Completion index of a Job, worker index of a LeaderWorkerSet, replica index of Kubeflow's jobs and
of Ray, pod index of a StatefulSet, and the index label of Kueue. A member that leads the others
(launcher, master, head, leader) comes first without one. Pure.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from scheduler.base.text import natural
from scheduler.objects.pod import Pod

_LONGEST: Final = 9
# Labels whose values are one index together, from the outer to the inner one; the first that a pod
# has in full counts.
_INDEXES: Final = (
    ("kueue.x-k8s.io/pod-group-pod-index",),
    ("jobset.sigs.k8s.io/job-index", "batch.kubernetes.io/job-completion-index"),
    ("batch.kubernetes.io/job-completion-index",),
    ("leaderworkerset.sigs.k8s.io/group-index", "leaderworkerset.sigs.k8s.io/worker-index"),
    ("leaderworkerset.sigs.k8s.io/worker-index",),
    ("ray.io/worker-group-replica-index", "ray.io/replica-host-index"),
    ("training.kubeflow.org/replica-index",),
    ("volcano.sh/task-index",),
    ("apps.kubernetes.io/pod-index",),
)
# Each of these labels, once.
INDEX_LABELS: Final = tuple(dict.fromkeys(name for names in _INDEXES for name in names))
_ROLES: Final = (
    "training.kubeflow.org/replica-type",
    "training.kubeflow.org/job-role",
    "jobset.sigs.k8s.io/replicatedjob-name",
    "ray.io/group",
    "ray.io/node-type",
    "volcano.sh/task-spec",
)
_LEADING: Final = frozenset(
    ("launcher", "master", "chief", "head", "headgroup", "leader", "driver")
)


def index_of(pod: Pod) -> tuple[int, ...] | None:
    """Return the index of a member, None without one."""
    labels = pod.metadata.labels
    for names in _INDEXES:
        values = [labels.get(name, "") for name in names]
        if all(text.isascii() and text.isdecimal() and len(text) <= _LONGEST for text in values):
            return tuple(map(int, values))
    return None


def has_indexes(pods: Iterable[Pod]) -> bool:
    """Return whether the order of these members follows from their labels."""
    return any(index_of(pod) is not None for pod in pods)


def order_of(pod: Pod) -> tuple[Any, ...]:
    """Return a key that sorts members of one group by index: those that lead first, then role by
    role.
    """
    labels, index = pod.metadata.labels, index_of(pod)
    role = _role(labels)
    leads = any(labels.get(name, "").lower() in _LEADING for name in _ROLES)
    owner = next((one.name for one in pod.metadata.owner_references if one.controller), "")
    own = () if index is not None and len(index) > 1 else natural(owner)
    return not leads, natural(role), own, index is None, index or (), natural(pod.metadata.name)


def _role(labels: Mapping[str, str]) -> str:
    return next((labels[name] for name in _ROLES if labels.get(name)), "")
