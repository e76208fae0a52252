"""VolumeBinding: place a pod where its volumes are, can be bound, or can be provisioned.

Bound claims restrict the nodes. For an unbound claim of a class that waits for a consumer, a node
needs a matching volume, or must be one where the class provisions. The volumes chosen with the node
are assumed at reserve and written at pre-bind; the pod is bound after its claims.
"""

from collections.abc import Generator, Hashable, Iterator, Mapping
from typing import ClassVar

import msgspec
import numpy as np

from scheduler.framework import (
    EACH_POD,
    SKIP,
    SUCCESS,
    Args,
    BindStep,
    BoolColumn,
    CallResult,
    Change,
    Code,
    Cycle,
    Handle,
    IntColumn,
    Nodes,
    PerSpec,
    Plugin,
    Pod,
    Reason,
    Rejected,
    Status,
    WillWait,
    unresolvable,
)
from scheduler.objects import storage
from scheduler.objects.pod import NodeSelector
from scheduler.plugins.allocation import UtilizationShapePoint, shape_faults
from scheduler.plugins.volumes import writing
from scheduler.plugins.volumes.attached import CSI_NODE
from scheduler.plugins.volumes.bindinghints import BindingHints
from scheduler.plugins.volumes.catalog import VolumeCatalog
from scheduler.plugins.volumes.claims import (
    CLAIM,
    CLASS,
    VOLUME,
    ClaimUse,
    claim_uses,
    class_of,
    has_claims,
    is_bound,
    is_for_pod,
    not_for_pod,
    not_found,
)
from scheduler.plugins.volumes.matching import CAPACITY, DRIVER, Matcher
from scheduler.plugins.volumes.migration import migrated_affinity, migration_of
from scheduler.plugins.volumes.places import SelectedRows, mask_of
from scheduler.plugins.volumes.scoring import CAPACITY_SCORING, DEFAULT_SHAPE, CapacityScorer

REASON_AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
REASON_UNMATCHED = "node(s) didn't find available persistent volumes to bind"
REASON_CRAMPED = "node(s) did not have enough free storage"
REASON_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
REASON_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"


class VolumeBindingArgs(Args):
    """How long to wait for volumes, in seconds, and the score over the utilization of storage.

    An empty or missing `shape` prefers most free capacity.
    """

    bind_timeout_seconds: int = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None

    def validate(self) -> Iterator[tuple[str, str]]:
        """Yield the values that kube-scheduler rejects."""
        seconds = self.bind_timeout_seconds
        if seconds < 0:
            text = "invalid BindTimeoutSeconds, should not be a negative value"
            yield "bindTimeoutSeconds", f"Invalid value: {seconds}: {text}"
        for inner, text in shape_faults(self.shape or DEFAULT_SHAPE):
            yield f"shape{inner}", text

    def gated(self) -> Mapping[str, str]:
        """Return the feature gate of each field that needs one: a shape needs
        StorageCapacityScoring.
        """
        return {} if self.shape is None else {"shape": CAPACITY_SCORING}


class PodClaims(msgspec.Struct, eq=False):
    """The claims of a pod in one attempt; `steps` are the decisions about them at reserve."""

    nodes: Nodes
    bound: dict[str, storage.PersistentVolumeClaim] = {}
    unbound: dict[str, storage.PersistentVolumeClaim] = {}
    steps: list[writing.ClaimStep] = []


class VolumeBinding(Plugin[VolumeBindingArgs]):
    """Reject nodes that the pod's volumes cannot reach; bind its claims before the pod."""

    reads = (CLASS, CLAIM, VOLUME, "node.labels", CSI_NODE, DRIVER, CAPACITY)
    local = True
    unread: ClassVar[Mapping[str, str]] = {"pre_filter": "not found"}

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._catalog = handle.tracker(VolumeCatalog)
        self._places = SelectedRows()
        self._matcher = Matcher(handle.objects, self._catalog, self._places)
        is_scored = handle.feature_gates.get(CAPACITY_SCORING)
        self._scorer = CapacityScorer(args.shape or (), self._matcher) if is_scored else None
        self._hints = BindingHints(handle.objects)
        self._has_claims = PerSpec(has_claims)

    def key(self, pod: Pod) -> Hashable | None:
        """Return None for a pod without such volumes."""
        return EACH_POD if has_claims(pod) else None

    def pre_filter(self, cycle: Cycle, nodes: Nodes) -> Status | PodClaims:
        """Return the pod's claims, Skip for a pod without; claims that cannot be waited for reject
        it.
        """
        if not self._has_claims.of(cycle):
            return SKIP
        pod, uses = cycle.pod, tuple(claim_uses(cycle.pod))
        for use in uses:
            fault = self._fault(pod, use)
            if fault:
                return unresolvable(fault)
        found = PodClaims(nodes)
        is_immediate = False
        for use in uses:
            claim = self._catalog.claim(use.key)
            if claim is None or is_bound(claim):
                if claim is not None:
                    found.bound[use.key] = claim
                continue
            mode = self._mode(claim)
            if mode is None:
                text = f'VolumeBindingMode not set for StorageClass "{class_of(claim)}"'
                return Status(Code.ERROR, (text,))
            if mode == storage.WAIT_FOR_FIRST_CONSUMER and not claim.spec.volume_name:
                found.unbound[use.key] = claim
            else:
                is_immediate = True
        return unresolvable(REASON_IMMEDIATE) if is_immediate else found

    def filter(self, _cycle: Cycle, nodes: Nodes, claims: PodClaims) -> Rejected | None:
        """Reject the nodes that bound volumes exclude, or on which an unbound claim gets no
        volume.
        """
        masks = self._bound_elsewhere(nodes, claims)
        if claims.unbound:
            plan = self._matcher.plan(nodes, tuple(claims.unbound.values()))
            masks = {
                REASON_AFFINITY: masks.pop(REASON_AFFINITY, None),
                REASON_UNMATCHED: plan.unmatched,
                REASON_CRAMPED: plan.cramped,
                **masks,
            }
        reasons = tuple(
            Reason(rows, text)
            for text, rows in masks.items()
            if rows is not None and np.count_nonzero(rows)
        )
        if not reasons:
            return None
        rows = reasons[0].rows
        for reason in reasons[1:]:
            rows = rows | reason.rows
        return Rejected(rows, rows, reasons)

    def pre_score(self, *_: object) -> Status:
        """Skip unless StorageCapacityScoring is on."""
        return SUCCESS if self._scorer is not None else SKIP

    def score(self, _cycle: Cycle, nodes: Nodes, claims: PodClaims | None) -> IntColumn:
        """Return the score by utilization of storage; 0 for every node without unbound claims."""
        if self._scorer is None or claims is None or not claims.unbound:
            return nodes.constant(0)
        return self._scorer.scores(nodes, tuple(claims.unbound.values()))

    def reserve(self, _cycle: Cycle, node: str, claims: PodClaims | None) -> Status | None:
        """Assume which volumes the claims get, or that they are made for this node."""
        if claims is None or not claims.unbound:
            return None
        row = claims.nodes.row(node)
        if row is None:
            return unresolvable(REASON_UNMATCHED)
        one = claims.nodes.only(np.array([row], dtype=np.intp))
        plan = self._matcher.plan(one, tuple(claims.unbound.values()))
        if plan.unmatched[0] or plan.cramped[0]:
            return unresolvable(REASON_UNMATCHED if plan.unmatched[0] else REASON_CRAMPED)
        for choice in plan.choices:
            volume = choice.of(0)
            if volume is not None:
                claims.steps.append(writing.bind_step(self._catalog, volume, choice.claim))
        for claim, rows in plan.made:
            if rows[0]:
                claims.steps.append(writing.make_step(self._catalog, claim, node))
        return None

    def unreserve(self, _cycle: Cycle, _node: str, claims: PodClaims | None) -> None:
        """Revert assumed bindings that are not written."""
        if claims is not None:
            writing.undo(self._catalog, claims.steps)
            claims.steps = []

    def pre_bind(
        self, _cycle: Cycle, node: str, claims: PodClaims | None
    ) -> Generator[BindStep, CallResult, Status]:
        """Write the assumed bindings and wait until the claims are bound."""
        if claims is None or not claims.steps:
            return SUCCESS
        progress = writing.Progress(
            claims.steps,
            node,
            claims.nodes,
            self.handle.objects,
            self._catalog,
            self._affinity_on,
        )
        try:
            yield WillWait()
            yield from writing.write(claims.steps)
            yield from writing.wait(progress, float(self.args.bind_timeout_seconds))
        except writing.VolumeBindingError as error:
            return Status(Code.ERROR, (str(error),))
        return SUCCESS

    def hint(self, change: Change, pod: Pod) -> bool:
        """Return whether the change may give the pod's claims a volume, or its volumes a node."""
        return self._hints.helps(change, pod)

    def _fault(self, pod: Pod, use: ClaimUse) -> str:
        """Return why a claim rules the pod out for now, an empty text if it does not."""
        claim: storage.PersistentVolumeClaim | None = self.handle.objects(CLAIM).get(use.key)
        if claim is None:
            if not use.is_ephemeral:
                return not_found(use.name)
            return (
                "waiting for ephemeral volume controller to create the "
                f'persistentvolumeclaim "{use.name}"'
            )
        if claim.status.phase == "Lost":
            volume = claim.spec.volume_name
            return (
                f'persistentvolumeclaim "{use.name}" bound to non-existent '
                f'persistentvolume "{volume}"'
            )
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{use.name}" is being deleted'
        if use.is_ephemeral and not is_for_pod(claim, pod):
            return not_for_pod(claim, pod)
        return ""

    def _mode(self, claim: storage.PersistentVolumeClaim) -> str | None:
        """Return the binding mode of a claim's class: '' without a class, None if the class has
        none.
        """
        found = self.handle.objects(CLASS).get(class_of(claim))
        if found is None:
            return ""
        mode: str | None = found.volume_binding_mode
        return mode

    def _bound_elsewhere(self, nodes: Nodes, claims: PodClaims) -> dict[str, BoolColumn | None]:
        """Return the rows that bound claims rule out: by the first claim that does."""
        elsewhere: BoolColumn | None = None
        left: BoolColumn | None = None
        for claim in claims.bound.values():
            volume = self._catalog.volume(claim.spec.volume_name)
            if volume is None:
                gone = nodes.exists if left is None else left
                return {REASON_AFFINITY: elsewhere, REASON_GONE: gone}
            here = self._reachable(nodes, volume)
            if here is not None:
                left = nodes.exists if left is None else left
                out = left & ~here
                elsewhere = out if elsewhere is None else elsewhere | out
                left = left & here
        return {REASON_AFFINITY: elsewhere}

    def _reachable(self, nodes: Nodes, volume: storage.PersistentVolume) -> BoolColumn | None:
        """Return the rows from which a volume can be reached, None for all."""
        affinity = volume.spec.node_affinity
        selector = affinity.required if affinity is not None else None
        found = self._places.of_affinity(nodes, selector)
        migration = migration_of(volume)
        if migration is None or volume.spec.csi is not None:
            return None if found is None else mask_of(found, nodes.size)
        csi_nodes = self.handle.objects(CSI_NODE)
        names = [name for name, one in csi_nodes.items() if _is_migrated(one, migration.plugin)]
        moved = self._places.of_affinity(nodes, migrated_affinity(volume, migration))
        is_moved = nodes.rows_named(names)
        size = nodes.size
        return (is_moved & mask_of(moved, size)) | (~is_moved & mask_of(found, size))

    def _affinity_on(self, volume: storage.PersistentVolume, node: str) -> NodeSelector | None:
        """Return a volume's node affinity, restricted to the labels that count on the node."""
        migration = migration_of(volume) if volume.spec.csi is None else None
        csi_node = self.handle.objects(CSI_NODE).get(node)
        if migration is not None and _is_migrated(csi_node, migration.plugin):
            return migrated_affinity(volume, migration)
        affinity = volume.spec.node_affinity
        return affinity.required if affinity is not None else None


def _is_migrated(csi_node: storage.CSINode | None, plugin: str) -> bool:
    """Return whether a node leaves the volumes of an in-tree plugin to its CSI driver."""
    if csi_node is None:
        return False
    return plugin in csi_node.metadata.annotations.get(storage.MIGRATED_PLUGINS, "").split(",")
