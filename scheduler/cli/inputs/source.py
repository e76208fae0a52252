"""The cluster that a verb answers about, and the object that its words name.

One implementation for `simulate`, `explain`, `capacity`, `groups`, `queue` and `history`: the live
cluster (KUBECONFIG, `~/.kube/config`, in-cluster) unless `--snapshot` names files; `-f` adds
objects.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import quote

from msgspec.structs import replace

from scheduler.base.errors import InputError
from scheduler.cli.inputs import cmdio
from scheduler.cli.inputs.access import ClusterOptions
from scheduler.cli.output.progress import progress
from scheduler.groups.sources import registry as sources
from scheduler.objects.pod import Pod
from scheduler.simulate.derive import with_derived_groups
from scheduler.simulate.stage import AnswerOptions, Setup
from scheduler.snapshot.copying import copies_of
from scheduler.snapshot.documents import Item, SourceFile, items_of
from scheduler.snapshot.snapshot import Snapshot, SnapshotReader
from scheduler.snapshot.targets import WORKLOADS, Target, missing, pods_of
from scheduler.snapshot.workloads.owned import controller_of


class SeenSnapshot(NamedTuple):
    """A cluster as read, the namespace in use there, and the options with its time."""

    snapshot: Snapshot
    namespace: str
    options: AnswerOptions


class SnapshotSource(NamedTuple):
    """Where a cluster is read from: files, or an API server; `files` (of `-f`) are added."""

    access: ClusterOptions
    snapshots: Sequence[str] = ()
    files: Sequence[str] = ()

    @property
    def is_live(self) -> bool:
        """Return whether the cluster is read from an API server."""
        return not self.snapshots


def read_source(
    source: SnapshotSource,
    wanted: AnswerOptions,
    *,
    setups: Sequence[Setup] = (),
    as_copies: bool = False,
    note: Callable[[Item], None] | None = None,
) -> SeenSnapshot:
    """Read the cluster and the additional files; `note` receives each object too.

    `setups` are the configurations of the answer: a live cluster also lists the kinds from which
    they derive groups. With one configuration, the pods are in the groups that it derives; with
    several, each derives its own later. `as_copies`: each given pod or workload is added as one
    more copy.
    """
    if [*source.snapshots, *source.files].count("-") > 1:
        raise InputError("standard input can be read once only", where="-")
    reader = SnapshotReader(as_copies=as_copies)
    namespace = source.access.namespace or "default"
    if source.is_live:
        with progress("listing the cluster"):
            kinds = cmdio.listed_kinds(*setups)
            seen = cmdio.read_cluster(source.access, reader, kinds, note=note)
        namespace, wanted = seen.namespace, cmdio.taken_at(wanted, seen)
    else:
        reader.read(cmdio.noted(cmdio.items_in(source.snapshots), note))
    reader.read(cmdio.noted(cmdio.items_in(source.files), note), are_given=True)
    snapshot = reader.snapshot()
    if len(setups) == 1:
        snapshot = with_derived_groups(snapshot, setups[0].loaded)
    return SeenSnapshot(snapshot, namespace, wanted)


def pods_named(snapshot: Snapshot, target: Target) -> list[Pod]:
    """Return the pods of a target, pending ones first; MissingError if it has none."""
    found = pods_of(snapshot, target)
    if not found:
        raise missing(snapshot, target)
    return found


def chosen_pod(snapshot: Snapshot, target: Target) -> Pod:
    """Return the representative pod of a target; a notice counts its other pods."""
    pods = pods_named(snapshot, target)
    chosen = pods[0]
    if len(pods) > 1:
        ended = {pod.metadata.uid for pod in snapshot.ended}
        running = [pod for pod in pods if pod.metadata.uid not in ended]
        bound = sum(1 for pod in running if pod.spec.node_name)
        text = f"{target.name} has {len(pods)} pods, {bound} on nodes"
        text += f", {len(pods) - len(running)} ended" if len(running) < len(pods) else ""
        cmdio.print_stderr([f"notice: {text}; this is {chosen.key}"])
    return chosen


def given_pod(snapshot: Snapshot) -> Pod:
    """Return the pod of `-f`; InputError if the file contains none."""
    given = [pod for pod in snapshot.unbound if pod.metadata.uid in snapshot.given]
    if not given:
        raise InputError("gives no pod that waits; name one: NAME or TYPE/NAME", where="-f")
    if len(given) > 1:
        cmdio.print_stderr([f"notice: {len(given)} pods are given; this is {given[0].key}"])
    return given[0]


def with_copy(snapshot: Snapshot, target: Target) -> Snapshot:
    """Return the cluster whose only given pods are one more copy of the target: a pod, or a whole
    group.
    """
    found = pods_named(snapshot, target)
    group = sources.group_of(found[0])
    pods = [pod for pod in found if sources.group_of(pod) == group] if group else found[:1]
    if group:
        listed = [*snapshot.unbound, *snapshot.bound, *snapshot.ended]
        pods = [pod for pod in listed if sources.group_of(pod) == group]
    taken = {pod.key for pod in (*snapshot.bound, *snapshot.unbound, *snapshot.ended)}
    copies = copies_of(pods, taken)
    uids = frozenset(pod.metadata.uid for pod in copies)
    return replace(snapshot, unbound=(*snapshot.unbound, *copies), given=uids)


def applied_manifest(source: SnapshotSource, target: Target, namespace: str) -> list[Item]:
    """Return a workload of the cluster as `-f` would give it; an empty list if it is missing."""
    kind = WORKLOADS.get(target.kind)
    if kind is None or not source.is_live:
        return []
    from scheduler.cli.inputs.live import get

    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    where = quote(target.namespace or namespace, safe="")
    path = f"{root}/namespaces/{where}/{kind.plural}/{quote(target.name, safe='')}"
    answer = get(source.access, path)
    return list(items_of(SourceFile(str(target), answer.body))) if answer.ok else []


def workload_title(pod: Pod) -> str:
    """Return `namespace/name` of the workload that controls a pod, '' for a pod on its own."""
    owner = controller_of(pod)
    if owner is None:
        return ""
    hashed = pod.metadata.labels.get("pod-template-hash", "")
    name = owner.name.removesuffix(f"-{hashed}") if hashed else owner.name
    return f"{pod.metadata.namespace}/{name}"
