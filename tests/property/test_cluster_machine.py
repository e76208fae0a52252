"""After any sequence of events the cluster equals one built from the present objects.

The machine keeps nodes and pods as plain objects beside the incremental `Cluster`; after every step
both are compared. Freed rows must be empty, an earlier copy must be unchanged, hypotheticals must
equal a cluster that really changed, and a tracker fed by changes must equal a rebuilt one.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduler.base.errors import ObjectError, StateError
from scheduler.framework.nodes import Nodes
from scheduler.objects.node import ContainerImage, Node, Taint
from scheduler.objects.pod import (
    Container,
    ContainerPort,
    ContainerStatus,
    Pod,
    PodCondition,
    ResourceRequirements,
)
from scheduler.state.change import NOTHING, Change
from scheduler.state.cluster import Cluster
from tests.property.making import make_node, make_pod, with_spec, with_status
from tests.property.picture import (
    EMPTY_ROW,
    IMAGES,
    PORTS,
    image_holders,
    pods_picture,
    row_picture,
    table_picture,
)

NODES = ("n0", "n1", "n2", "n3")
UIDS = tuple(f"u{number}" for number in range(8))

node_names = st.sampled_from(NODES)
pod_nodes = st.sampled_from((*NODES, "unknown"))
uids = st.sampled_from(UIDS)
labels = st.fixed_dictionaries(
    {},
    optional={
        "zone": st.sampled_from("ab"),
        "disk": st.just("ssd"),
        "number": st.sampled_from(["3", "5", "five"]),
    },
)
taints = st.lists(
    st.sampled_from([Taint("k", "v", "NoSchedule"), Taint("slow", "", "PreferNoSchedule")]),
    unique=True,
    max_size=2,
)
images = st.lists(
    st.builds(
        lambda names, size: ContainerImage(tuple(names), size),
        st.lists(st.sampled_from(IMAGES), unique=True, min_size=1, max_size=2),
        st.sampled_from([10, 20]),
    ),
    max_size=2,
)
offers = st.fixed_dictionaries(
    {"cpu": st.sampled_from([2, "1500m"]), "memory": st.sampled_from(["1Gi", 5])},
    optional={"example.com/gpu": st.integers(0, 2), "hugepages-2Mi": st.just("4Mi")},
)
nodes = st.builds(
    lambda name, labels, taints, unschedulable, images, offers: make_node(
        name,
        labels=labels,
        taints=taints,
        unschedulable=unschedulable,
        images=images,
        allocatable=offers,
    ),
    node_names,
    labels,
    taints,
    st.booleans(),
    images,
    offers,
)
amounts = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from([1, "250m"]),
        "memory": st.sampled_from(["1Mi", 7]),
        "example.com/gpu": st.integers(0, 2),
        "storage": st.just(4),
    },
)


def pod_of(uid: str, node: str, wants: dict[str, Any], ports: list[ContainerPort]) -> Pod:
    """Return a pod with one container."""
    container = Container("main", "app:1", "", ResourceRequirements(wants), tuple(ports))
    return with_spec(make_pod(uid, uid=uid, node=node), containers=(container,))


pods = st.builds(
    pod_of, uids, pod_nodes, amounts, st.lists(st.sampled_from(PORTS), unique=True, max_size=2)
)


def resized(pod: Pod, allocated: dict[str, Any], *, infeasible: bool) -> Pod:
    """Return the pod with the kubelet's status during an in-place resize."""
    status = ContainerStatus("main", ResourceRequirements(allocated), allocated)
    conditions = (PodCondition(type="PodResizePending", reason="Infeasible"),)
    return with_status(
        pod, container_statuses=(status,), conditions=conditions if infeasible else ()
    )


class CpuTracker:
    """CPU per node name, kept by changes alone."""

    kinds = ()

    def __init__(self) -> None:
        self.cpu: Counter[str] = Counter()

    def rebuild(self, cluster: Cluster) -> None:
        """Build the state from the objects."""
        self.cpu = Counter()
        for placed in cluster.pods:
            self.cpu[placed.node] += placed.requests.get("cpu", 0)

    def apply(self, change: Change) -> None:
        """Apply one change."""
        for placed, sign in ((change.before, -1), (change.after, 1)):
            if placed is not None:
                self.cpu[placed.node] += sign * placed.requests.get("cpu", 0)

    def columns(self) -> Mapping[str, Any]:
        """Return the nonzero values."""
        return {name: amount for name, amount in self.cpu.items() if amount}


class ClusterMachine(RuleBasedStateMachine):
    """Events, assumptions, and a second opinion."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.tracker = CpuTracker()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, tuple[Pod, str, bool]] = {}
        self.steps = 0
        self.failed = False
        self.mark = 0
        self.amounts: list[Any] = []

    def follow(self, change: Change) -> None:
        """Take a change in where trackers do."""
        self.tracker.apply(change)

    # Nodes.

    @rule(node=nodes)
    def put_node(self, node: Node) -> None:
        """A node is added or changed."""
        change = self.cluster.put_node(node)
        known = self.nodes.get(node.metadata.name)
        assert ("add" if known is None else "update") == change.verb
        assert known == change.old
        if known is not None:
            assert (known.metadata.labels != node.metadata.labels) == (
                "node.labels" in change.facts
            )
            assert (known == node) <= (not change.facts)
        self.nodes[node.metadata.name] = node

    @rule(name=node_names)
    def drop_node(self, name: str) -> None:
        """Delete a node; its pods stay under its name."""
        change = self.cluster.drop_node(name)
        assert (self.nodes.pop(name, None) is None) == (change is NOTHING)

    # Pods.

    @rule(pod=pods)
    def put_pod(self, pod: Pod) -> None:
        """A bound pod appears, changes, moves, or confirms an assumed one."""
        uid = pod.metadata.uid
        before = self.pods.get(uid)
        change = self.cluster.put_pod(pod)
        is_new = before is None or before[2]
        assert ("add" if is_new else "update") == change.verb
        moved = before is not None and before[1] != pod.spec.node_name
        assert moved <= ("pod.deleted" in change.facts)
        self.pods[uid] = (pod, pod.spec.node_name, False)
        self.follow(change)

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), allocated=amounts, infeasible=st.booleans())
    def resize_pod(self, data: Any, allocated: dict[str, Any], infeasible: bool) -> None:
        """The kubelet reports other amounts than those in the spec."""
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        pod, node, _ = self.pods[uid]
        self.put_pod(resized(with_spec(pod, node_name=node), allocated, infeasible=infeasible))

    @rule(name=node_names, uid=uids)
    def put_bad_objects(self, name: str, uid: str) -> None:
        """An object with an invalid amount changes nothing."""
        with pytest.raises(ObjectError):
            self.cluster.put_node(make_node(name, allocatable={"cpu": "many"}))
        with pytest.raises(ObjectError):
            self.cluster.put_pod(pod_of(uid, name, {"cpu": "1 core"}, []))

    @rule(uid=uids)
    def drop_pod(self, uid: str) -> None:
        """Delete a pod, assumed or bound."""
        change = self.cluster.drop_pod(uid)
        assert (self.pods.pop(uid, None) is None) == (change is NOTHING)
        self.follow(change)

    @rule(pod=pods)
    def assume(self, pod: Pod) -> None:
        """Assume a pod on a node; a placed pod cannot be assumed."""
        uid, node = pod.metadata.uid, pod.spec.node_name
        pending = with_spec(pod, node_name="")
        if uid in self.pods:
            with pytest.raises(StateError):
                self.cluster.assume(pending, node)
            return
        self.follow(self.cluster.assume(pending, node))
        self.pods[uid] = (pending, node, True)

    @precondition(lambda self: any(assumed for _, _, assumed in self.pods.values()))
    @rule(data=st.data(), newer=pods)
    def renew(self, data: Any, newer: Pod) -> None:
        """The watch shows a newer version of an assumed pod that is not bound yet."""
        waiting = sorted(uid for uid, (_, _, assumed) in self.pods.items() if assumed)
        uid = data.draw(st.sampled_from(waiting))
        pod = with_spec(make_pod(uid, uid=uid), containers=newer.spec.containers)
        self.follow(self.cluster.renew(pod))
        self.pods[uid] = (pod, self.pods[uid][1], True)

    @rule(uid=uids)
    def forget(self, uid: str) -> None:
        """Forget an assumed pod; a confirmed one stays."""
        change = self.cluster.forget(uid)
        assumed = self.pods.get(uid, (None, "", False))[2]
        assert assumed == (change is not NOTHING)
        if assumed:
            del self.pods[uid]
        self.follow(change)

    @precondition(lambda self: any(assumed for _, _, assumed in self.pods.values()))
    @rule(data=st.data())
    def confirm(self, data: Any) -> None:
        """The watch shows an assumed pod bound on the assumed node."""
        waiting = sorted(uid for uid, (_, _, assumed) in self.pods.items() if assumed)
        pod, node, _ = self.pods[data.draw(st.sampled_from(waiting))]
        self.put_pod(with_spec(pod, node_name=node))

    # Views.

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), added=st.lists(pods, max_size=3, unique_by=lambda p: p.metadata.uid))
    def hypothetical(self, data: Any, added: list[Pod]) -> None:
        """The columns of a hypothetical equal those of a cluster that really changed."""
        placed = [p for p in self.cluster.pods if p.node in self.nodes]
        removed = data.draw(
            st.lists(st.sampled_from(placed), unique_by=id, max_size=3) if placed else st.just([])
        )
        view = Nodes(self.cluster.table, self.cluster.pods)
        other = self.fresh()
        for one in removed:
            other.drop_pod(one.pod.metadata.uid)
        moves = []
        for pod in added:
            new = with_spec(make_pod(f"x{pod.metadata.uid}"), containers=pod.spec.containers)
            name = data.draw(st.sampled_from(sorted(self.nodes)))
            record = other.assume(new, name).after
            assert record is not None
            moves.append((record, self.cluster.table.rows[name]))
        self.compare(view.hypothetical(removed, moves), Nodes(other.table, other.pods))
        rows = data.draw(st.lists(st.sampled_from(sorted(self.cluster.table.rows.values()))))
        few = view.only(np.array(rows, dtype=np.intp))
        self.compare(few, view)
        table_row = {name: place for place, name in enumerate(map(few.name, range(few.size)))}
        again = [(r, table_row[view.name(row)]) for r, row in moves if view.name(row) in table_row]
        if again:
            other = self.fresh()
            for record, place in again:
                other.assume(record.pod, few.name(place))
            self.compare(few.hypothetical((), again), Nodes(other.table, other.pods))

    def compare(self, view: Nodes, real: Nodes) -> None:
        """Compare the columns of a view with those of another one, node by node."""
        for row in range(view.size):
            name = view.name(row)
            if not name:
                continue
            true = real.row(name)
            assert true is not None
            for resource in ("cpu", "memory", "example.com/gpu", "pods"):
                assert real.requested(resource)[true] == view.requested(resource)[row], resource
                assert real.allocatable(resource)[true] == view.allocatable(resource)[row]
            for resource in ("cpu", "memory"):
                assert real.scored(resource)[true] == view.scored(resource)[row], resource
            for port in PORTS:
                assert real.ports_taken([port])[true] == view.ports_taken([port])[row]
            assert set(real.pods_on(true)) == set(view.pods_on(row))
            assert real.labels_mask({"zone": "a"})[true] == view.labels_mask({"zone": "a"})[row]
            assert real.unschedulable[true] == view.unschedulable[row]
            assert real.name_hash[true] == view.name_hash[row]
            assert view.node(row) is not None

    # Invariants.

    def fresh(self) -> Cluster:
        """Return a cluster built from the present objects."""
        fresh = Cluster()
        for node in self.nodes.values():
            fresh.put_node(node)
        for pod, name, assumed in self.pods.values():
            if assumed:
                fresh.assume(pod, name)
            else:
                fresh.put_pod(pod)
        return fresh

    @invariant()
    def everything_holds(self) -> None:
        """Check every few steps and at the end: a rebuild costs more than the steps."""
        self.steps += 1
        if self.steps % 5 == 0:
            self.check()

    def teardown(self) -> None:
        """Check a last time."""
        if not self.failed:
            self.check()

    def check(self) -> None:
        """Compare all columns."""
        self.failed = True
        self.equals_a_fresh_build()
        self.freed_rows_are_empty()
        self.trackers_follow()
        self.changed_amounts_are_touched()
        self.failed = False

    def equals_a_fresh_build(self) -> None:
        """Table, labels, masks, taints, images, ports and pods."""
        fresh = self.fresh()
        table = self.cluster.table
        assert table_picture(fresh.table) == table_picture(table)
        assert image_holders(fresh.table) == image_holders(table)
        assert pods_picture(fresh.pods) == pods_picture(self.cluster.pods)
        assert len(fresh.table) == len(table)
        for image in IMAGES:
            # The size is the first one seen, which depends on the order of events.
            share = image_holders(table)[image] / max(len(table), 1)
            assert table.images.spread_bytes(image, len(table)) in {
                int(10 * share),
                int(20 * share),
            }

    def freed_rows_are_empty(self) -> None:
        """A deleted node leaves no values on its row."""
        table = self.cluster.table
        used = set(table.rows.values())
        assert np.flatnonzero(table.exists).tolist() == sorted(used)
        for row in range(table.size):
            if row not in used:
                assert EMPTY_ROW == row_picture(table, row)
                assert table.name(row) == ""

    def trackers_follow(self) -> None:
        """A tracker fed by every change equals a rebuilt one."""
        fresh = CpuTracker()
        fresh.rebuild(self.cluster)
        assert fresh.columns() == self.tracker.columns()

    def changed_amounts_are_touched(self) -> None:
        """The log contains each row whose amounts changed."""
        table = self.cluster.table
        now = [
            [(r, int(table.allocatable(r)[row]), int(table.requested(r)[row])) for r in _NAMES]
            for row in range(table.size)
        ]
        touched = table.amounts_touched.since(self.mark)
        assert touched is not None
        for row, cells in enumerate(now):
            if row >= len(self.amounts) or self.amounts[row] != cells:
                assert row in touched
        self.mark, self.amounts = table.amounts_touched.mark, now


_NAMES = ("cpu", "memory", "pods", "example.com/gpu", "hugepages-2Mi")

TestCluster = ClusterMachine.TestCase
TestCluster.settings = settings(max_examples=25, stateful_step_count=80)


@pytest.mark.long
class TestClusterLong(ClusterMachine.TestCase):  # type: ignore[valid-type,misc]
    """The state machine with longer runs and other examples each time."""

    settings = settings(max_examples=500, stateful_step_count=100, derandomize=False, deadline=None)
