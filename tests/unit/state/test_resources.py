"""Effective requests of pods (kube-scheduler notes 4.5, live findings 9 and 10)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.base.errors import ObjectError
from scheduler.objects.pod import (
    Container,
    ContainerStatus,
    Pod,
    PodCondition,
    ResourceRequirements,
)
from scheduler.objects.quantity import INT64_MAX
from scheduler.state.cluster import Cluster
from scheduler.state.podindex import place
from scheduler.state.resources import (
    LARGEST,
    ResourceIndex,
    counted,
    is_counted,
    is_extended,
    pod_requests,
)
from scheduler.state.shapes import Shapes, scored
from tests.property.making import make_node, make_pod, with_spec, with_status


def container(name: str = "main", restart: str = "", **wants: Any) -> Container:
    """Return a container; underscores in resource names stand for dashes."""
    requests = {key.replace("_", "-"): value for key, value in wants.items()}
    return Container(name, "app:1", restart, ResourceRequirements(requests))


def pod_of(*containers: Container, inits: tuple[Container, ...] = (), **spec: Any) -> Pod:
    """Return a pod of these containers."""
    return with_spec(make_pod("p"), containers=containers, init_containers=inits, **spec)


class TestSpec:
    """A pod that is still to be placed: its spec alone."""

    def test_containers_are_added_up(self):
        """CPU is summed in milli, every other resource in whole units."""
        pod = pod_of(container("a", cpu="100m", memory="1Ki"), container("b", cpu=1))

        assert {"cpu": 1100, "memory": 1024} == pod_requests(pod)

    def test_the_largest_init_container_counts(self):
        """Per resource: the sum of containers or the biggest initial need."""
        pod = pod_of(
            container(cpu="100m", memory=10),
            inits=(container("i", cpu="300m", memory=5), container("j", cpu="200m", gpu=1)),
        )

        assert {"cpu": 300, "memory": 10, "gpu": 1} == pod_requests(pod)

    def test_sidecars_stay_on_top(self):
        """A sidecar is added to the containers, and to later init containers only."""
        pod = pod_of(
            container(cpu="100m"),
            inits=(
                container("before", cpu="250m"),
                container("sidecar", restart="Always", cpu="50m"),
                container("after", cpu="220m"),
            ),
        )

        assert {"cpu": 270} == pod_requests(pod)

    def test_overhead_comes_on_top_of_pod_level_requests(self):
        """Pod-level requests replace the sum of what they may name; then overhead is added."""
        pod = pod_of(
            container(cpu="100m", memory=10, gpu=1),
            resources=ResourceRequirements({"cpu": "1", "gpu": 9, "hugepages-2Mi": "2Mi"}),
            overhead={"cpu": "5m", "memory": 1},
        )

        expected = {"cpu": 1005, "memory": 11, "gpu": 1, "hugepages-2Mi": 2 * 1024 * 1024}
        assert expected == pod_requests(pod)
        assert {"cpu": 105, "memory": 11, "gpu": 1} == pod_requests(pod, skip_pod_level=True)

    def test_an_invalid_quantity_is_reported(self):
        """The error names the object."""
        with pytest.raises(ObjectError, match='"much" is not a quantity'):
            pod_requests(pod_of(container(cpu="much")))

    def test_scoring_assumes_something_for_containers_that_name_nothing(self):
        """100m and 200Mi each, also for init containers; an explicit 0 stays 0."""
        pod = pod_of(container("a"), container("b", cpu=0, memory=0), inits=(container("i"),))

        assert (100, 200 * 1024 * 1024) == scored(pod, use_status=False, skip_pod_level=True)

    def test_pod_level_requests_leave_less_to_assume(self):
        """With pod-level requests, a default is used only for a resource that no container and no
        overhead names.
        """
        pod = pod_of(
            container("a", memory=10),
            container("b"),
            resources=ResourceRequirements({"hugepages-2Mi": "2Mi"}),
        )

        assert (200, 10) == scored(pod, use_status=False, skip_pod_level=False)


class TestStatus:
    """A pod on a node: the status of a resize."""

    def requests(
        self,
        spec: dict[str, Any],
        actual: dict[str, Any] | None,
        allocated: dict[str, Any] | None,
        *,
        infeasible: bool = False,
    ) -> dict[str, int]:
        """Return the requests of a one-container pod with this status."""
        resources = None if actual is None else ResourceRequirements(actual)
        status = ContainerStatus("main", resources, allocated)
        condition = PodCondition(type="PodResizePending", reason="Infeasible")
        pod = with_spec(make_pod("p"), containers=(container(**spec),))
        pod = with_status(
            pod, container_statuses=(status,), conditions=(condition,) if infeasible else ()
        )
        return pod_requests(pod, use_status=True)

    def test_the_largest_of_the_three_counts(self):
        """Spec, allocated, actual: per resource the maximum."""
        assert {"cpu": 300} == self.requests({"cpu": "100m"}, {"cpu": "200m"}, {"cpu": "300m"})
        assert {"cpu": 300} == self.requests({"cpu": "300m"}, {"cpu": "200m"}, {"cpu": "100m"})

    def test_allocated_counts_only_with_actual_ones(self):
        """kube-scheduler ignores allocatedResources alone."""
        assert {"cpu": 100} == self.requests({"cpu": "100m"}, None, {"cpu": "300m"})

    def test_an_infeasible_resize_drops_the_spec(self):
        """An infeasible resize makes the spec's requests ignored, also of resources that only the
        spec names.
        """
        spec = {"cpu": 9, "gpu": 1}

        found = self.requests(spec, {"cpu": 1}, {"cpu": 2}, infeasible=True)
        assert {"cpu": 2000} == found

    def test_ordinary_init_containers_have_no_status(self):
        """Only sidecars are resized."""
        statuses = tuple(
            ContainerStatus(name, ResourceRequirements({"cpu": 2}), {"cpu": 2})
            for name in ("init", "side")
        )
        inits = (container("init", cpu=1), container("side", restart="Always", cpu=1))
        pod = with_status(pod_of(container(), inits=inits), init_container_statuses=statuses)

        assert {"cpu": 2000} == pod_requests(pod, use_status=True)

    def test_pod_level_status(self):
        """The pod's own resources follow the same rule, and can be left out."""
        pod = pod_of(container(cpu=1), resources=ResourceRequirements({"cpu": 1}))
        pod = with_status(
            pod, resources=ResourceRequirements({"cpu": 2}), allocated_resources={"cpu": 3}
        )

        assert {"cpu": 3000} == pod_requests(pod, use_status=True)
        assert {"cpu": 1000} == pod_requests(pod, use_status=True, pod_level_in_place=False)
        infeasible = (PodCondition(type="PodResizePending", reason="Infeasible"),)
        shrunk = with_status(pod, conditions=infeasible, allocated_resources=None)
        assert {"cpu": 2000} == pod_requests(shrunk, use_status=True)


class TestNames:
    """Tests of the resources that scheduling counts."""

    @pytest.mark.parametrize(
        ("name", "is_in"),
        [
            ("cpu", True),
            ("memory", True),
            ("ephemeral-storage", True),
            ("hugepages-2Mi", True),
            ("attachable-volumes-x", True),
            ("example.com/gpu", True),
            ("kubernetes.io/batch-cpu", True),
            ("storage", False),
            ("requests.example.com/gpu", False),
        ],
    )
    def test_counted(self, name: str, is_in: bool):
        """The counted names are native ones, huge pages and vendor-prefixed ones; bare unknown
        names are not.
        """
        assert is_in == bool(counted({name: 1}))
        assert {} == counted({name: 0})

    def test_extended_is_not_kubernetes_own(self):
        """`kubernetes.io/` in the name makes it native, though it is counted."""
        assert is_extended("example.com/gpu")
        assert not is_extended("kubernetes.io/x")
        assert is_counted("kubernetes.io/x")

    def test_columns_are_given_out_in_order(self):
        """A resource keeps its column for good."""
        index = ResourceIndex()

        assert ("cpu", "memory", "ephemeral-storage", "pods") == tuple(index)
        assert (4, 4, None) == (index.column("gpu"), index.column("gpu"), index.get("tpu"))
        assert 5 == len(index)


HUGE = st.sampled_from([INT64_MAX, "8Ei", "9E", "7e18"])


@pytest.mark.parametrize(("sums_first", "expected"), [(False, 8000), (True, 0)])
def test_an_infeasible_resize_without_status_counts_nothing_since_1_37(
    sums_first: bool, expected: int
):
    """Kubernetes 1.36 counts the spec until the kubelet reports the allocated amount."""
    pending = PodCondition(type="PodResizePending", status="True", reason="Infeasible")
    pod = with_status(make_pod("p", cpu=8), conditions=(pending,))
    placed = place(pod, Shapes().of(pod), "n0", sums_first=sums_first)

    assert expected == placed.requests.get("cpu", 0)


@given(
    st.dictionaries(
        st.sampled_from(["cpu", "memory", "x"]), st.sampled_from([-3, 1, 3]), min_size=1
    )
)
def test_amounts_end_at_the_largest_and_smallest(times: dict[str, int]):
    """Each resource by itself: sums beyond the limits are cut, all others stay."""
    unit = LARGEST // 2
    pod = pod_of(
        *(
            container(str(at), **{name: f"{unit if number > 0 else -unit}{'m' * (name == 'cpu')}"})
            for name, number in times.items()
            for at in range(abs(number))
        )
    )
    wanted = {name: max(-LARGEST, min(number * unit, LARGEST)) for name, number in times.items()}
    assert wanted == pod_requests(pod)


@given(st.lists(HUGE, min_size=1, max_size=3), st.integers(1, 40))
def test_absurd_requests_do_not_overflow(amounts: list[Any], pods: int):
    """A user may bind pods with any amounts: the node is full, and empty after their deletion."""
    containers = tuple(container(str(i), memory=amount) for i, amount in enumerate(amounts))
    cluster = Cluster()
    cluster.put_node(make_node("n"))
    for number in range(pods):
        pod = with_spec(make_pod(f"p{number}", node="n"), containers=containers)
        cluster.put_pod(pod)
        requested = cluster.table.requested("memory")[0]
        assert (number + 1) * LARGEST == requested
        assert cluster.table.scored("memory")[0] == requested
    for number in range(pods):
        cluster.drop_pod(f"uid-p{number}")

    assert 0 == cluster.table.requested("memory")[0] == cluster.table.scored("memory")[0]


class TestShapes:
    """Tests of interned specs."""

    def test_replicas_share_a_shape(self):
        """Name, uid, status and node make no difference; spec and labels do."""
        shapes = Shapes()
        first = shapes.of(make_pod("a"))

        assert first is shapes.of(make_pod("b", node="n", nominated="m"))
        assert first is not shapes.of(make_pod("c", labels={"x": "y"}))
        assert first is not shapes.of(make_pod("d", cpu=2))

    def test_a_shape_is_kept_while_it_is_referenced(self):
        """The table does not outgrow the cluster."""
        shapes = Shapes()
        shape = shapes.of(make_pod("a"))
        assert 1 == len(shapes)
        del shape

        assert 0 == len(shapes)

    def test_ports_and_images(self):
        """Sidecars' host ports count, ordinary init containers' do not; all images do."""
        pod = make_pod("p", host_port=80)
        shape = Shapes().of(pod)

        assert [80] == [port.host_port for port in shape.host_ports]
        assert ("app:1",) == shape.images
